package cell

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPhasesOfARecovery(t *testing.T) {
	timeline := []int64{10, 10, 2, 2, 2, 8, 8, 8}
	r := Recovery{Killed: 0.2, Back: 0.1, Gives: 0.2}
	r.Phases(timeline)
	assert.InDelta(t, 100, r.Before, 1e-6)
	assert.InDelta(t, 20, r.During, 1e-6)
	assert.InDelta(t, 80, r.After, 1e-6)

	r = Recovery{Killed: 0.15, Back: 0.1}
	r.Phases(timeline)
	assert.InDelta(t, 60, r.During, 1e-6, "half of a step of 10, and half of one of 2")
}

func TestRecoveryThatDoesNotEnd(t *testing.T) {
	r := Recovery{Killed: 0.1, Back: 0.1, Never: true}
	r.Phases([]int64{5, 1, 3})
	assert.InDelta(t, 50, r.Before, 1e-6)
	assert.InDelta(t, 20, r.During, 1e-6)
	assert.Zero(t, r.After)
}
