package wire

import "strings"

// RedissonPrefix begins the channels on which Redisson's clients announce the release of a lock.
const RedissonPrefix = "redisson_lock__channel:"

// RedissonChannel returns the channel of a lock; see the function announce of the scripts.
func RedissonChannel(name string) string {
	if strings.Contains(name, "{") {
		return RedissonPrefix + name
	}
	return RedissonPrefix + "{" + name + "}"
}

// RedissonNames returns the locks of a channel. There can be two: "a" and "{a}" have the same channel.
func RedissonNames(channel string) (names []string) {
	name, ok := strings.CutPrefix(channel, RedissonPrefix)
	if !ok || !strings.Contains(name, "{") {
		return nil
	}
	if inner := strings.TrimSuffix(strings.TrimPrefix(name, "{"), "}"); RedissonChannel(inner) == channel && inner != name {
		names = append(names, inner)
	}
	return append(names, name)
}
