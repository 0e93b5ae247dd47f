package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestLatchDeadlineBeforeAnyAnswer: only an await ends since the latch is not done. The other commands had no answer of
// enough nodes.
func TestLatchDeadlineBeforeAnyAnswer(t *testing.T) {
	for args, code := range map[string]int{
		"set l 3": exitNoQuorum, "down l one": exitNoQuorum, "count l": exitNoQuorum, "delete l": exitNoQuorum, "await l": exitHeld,
	} {
		r := call(t, strings.Fields("latch "+args+" --wait 1ns --embedded 3")...)
		assert.Equal(t, code, r.code, "%s: %s", args, r.stderr)
		assert.Contains(t, r.stderr, "--wait 1ns")
		assert.Equal(t, args == "await l", strings.Contains(r.stderr, "not done"), "%s: %s", args, r.stderr)
	}
}
