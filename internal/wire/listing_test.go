package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPermits(t *testing.T) {
	for _, semaphore := range []string{"s", "a{b}c", "{a}", "{a}:0", "with:colon", "s:1", "a}", "a{b", "{", "{}x", ":{a}", ""} {
		name := SlotName(PoolName(semaphore), 12)
		got, permit, ok := Permit(name)
		assert.True(t, ok, name)
		assert.Equal(t, semaphore, got)
		assert.Equal(t, 12, permit)
		assert.True(t, MayBeLock(name))
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
	assert.False(t, MayBeLock("quorumlock:node"))
	assert.False(t, MayBeLock(PoolName("s")))
	assert.True(t, MayBeLock("quorumlock"))
}
