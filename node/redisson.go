package node

import "strings"

// redissonPrefix begins the channels on which Redisson's clients tell each other that a lock
// was released.
const redissonPrefix = "redisson_lock__channel:"

// redissonChannel is the channel of a lock; see the function announce of the scripts.
func redissonChannel(name string) string {
	if strings.Contains(name, "{") {
		return redissonPrefix + name
	}
	return redissonPrefix + "{" + name + "}"
}

// redissonNames are the locks that a channel is for, of which there can be two: those of
// "a" and "{a}" are the same.
func redissonNames(channel string) (names []string) {
	name, ok := strings.CutPrefix(channel, redissonPrefix)
	if !ok || !strings.Contains(name, "{") {
		return nil
	}
	if inner := strings.TrimSuffix(strings.TrimPrefix(name, "{"), "}"); redissonChannel(inner) == channel && inner != name {
		names = append(names, inner)
	}
	return append(names, name)
}
