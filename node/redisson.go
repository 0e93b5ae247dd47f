package node

import "strings"

// redissonPrefix begins the channels on which Redisson's clients announce the release of a lock.
const redissonPrefix = "redisson_lock__channel:"

// redissonChannel returns the channel of a lock; see the function announce of the scripts.
func redissonChannel(name string) string {
	if strings.Contains(name, "{") {
		return redissonPrefix + name
	}
	return redissonPrefix + "{" + name + "}"
}

// redissonNames returns the locks of a channel. There can be two: "a" and "{a}" have the same channel.
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
