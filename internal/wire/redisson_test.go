package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRedissonChannel(t *testing.T) {
	for name, channel := range map[string]string{
		"a": "redisson_lock__channel:{a}", "": "redisson_lock__channel:{}", "a}": "redisson_lock__channel:{a}}",
		"{a}": "redisson_lock__channel:{a}", "x{a}": "redisson_lock__channel:x{a}", "{": "redisson_lock__channel:{",
	} {
		assert.Equal(t, channel, RedissonChannel(name), name)
	}
	for channel, names := range map[string][]string{
		"redisson_lock__channel:{a}":   {"a", "{a}"},
		"redisson_lock__channel:x{a}":  {"x{a}"},
		"redisson_lock__channel:{{a}}": {"{{a}}"},
		"redisson_lock__channel:{":     {"{"},
		"redisson_lock__channel:{}":    {"", "{}"},
		"redisson_lock__channel:a":     nil,
		"redisson_lock__channel:":      nil,
		"redisson_lock__channe:{a}":    nil,
		"":                             nil,
	} {
		assert.Equal(t, names, RedissonNames(channel), channel)
	}
}

// A channel is for exactly those names that are announced there.
func TestRedissonNamesOfAChannel(t *testing.T) {
	part := rapid.SampledFrom([]string{"{", "}", "a", "{a}", "b", ":"})
	rapid.Check(t, func(t *rapid.T) {
		name := ""
		for range rapid.IntRange(0, 4).Draw(t, "parts") {
			name += part.Draw(t, "part")
		}
		names := RedissonNames(RedissonChannel(name))
		require.Contains(t, names, name)
		for _, other := range names {
			require.Equal(t, RedissonChannel(name), RedissonChannel(other))
		}
	})
}
