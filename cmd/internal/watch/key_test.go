package watch

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/internal/wire"
)

func TestPermits(t *testing.T) {
	for _, semaphore := range []string{"s", "a{b}c", "{a}", "{a}:0", "with:colon", "s:1", "a}", "a{b", "{", "{}x", ":{a}", ""} {
		name := wire.SlotName(wire.PoolName(semaphore), 12)
		got, permit, ok := Permit(name)
		assert.True(t, ok, name)
		assert.Equal(t, semaphore, got)
		assert.Equal(t, 12, permit)
		assert.True(t, mayBeLock(name))
	}
	for _, name := range []string{
		"", "s", "s:1", "quorumlock:permit:", "quorumlock:permit:1", "quorumlock:permit:1:", "quorumlock:permit:{s}",
		"quorumlock:permit::{s}", "quorumlock:permit:x:{s}", "quorumlock:permit:-1:{s}", "quorumlock:permit:01:{s}",
		"quorumlock:permit:1,2:{s}", "quorumlock:permit:1:s", "quorumlock:permit:1::s", "quorumlock:permit:1:{{s}}",
		"quorumlock:permits:{s}", "quorumlock:permits:1:{s}",
	} {
		_, _, ok := Permit(name)
		assert.False(t, ok, name)
	}
	assert.False(t, mayBeLock("quorumlock:node"))
	assert.False(t, mayBeLock(wire.PoolName("s")))
	assert.True(t, mayBeLock("quorumlock"))
}
