package cell

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHistogramsAreMerged(t *testing.T) {
	a, b := NewHistogram(), NewHistogram()
	for i := 1; i <= 99; i++ {
		a.Record(time.Duration(i) * time.Microsecond)
	}
	b.Record(time.Millisecond)
	encoded := make([][]byte, 2)
	var err error
	encoded[0], err = a.Encode()
	require.NoError(t, err)
	encoded[1], err = b.Encode()
	require.NoError(t, err)

	l, err := Summarise(encoded)
	require.NoError(t, err)
	assert.Equal(t, int64(100), l.Count)
	assert.InDelta(t, 0.050, l.P50, 0.0002)
	assert.InDelta(t, 0.099, l.P99, 0.0002)
}

func TestEmptyHistogram(t *testing.T) {
	e, err := NewHistogram().Encode()
	require.NoError(t, err)
	l, err := Summarise([][]byte{e})
	require.NoError(t, err)
	assert.Nil(t, l)
}

func TestHistogramTakesTheLongest(t *testing.T) {
	h := NewHistogram()
	for range 3 {
		h.Record(time.Hour)
	}
	e, err := h.Encode()
	require.NoError(t, err)
	l, err := Summarise([][]byte{e})
	require.NoError(t, err)
	assert.Equal(t, int64(3), l.Count)
	assert.InEpsilon(t, float64(longest.Milliseconds()), l.P99, 0.01)
}

func TestComparedCellsShareAGroup(t *testing.T) {
	a := Cell{Scenario: "s", Load: Cycle, Callers: 1, Processes: 1, Nodes: 5, Peer: "a"}
	b := a
	b.Peer, b.Fault, b.Bad = "b", "hung", 2
	assert.Equal(t, a.Group(), b.Group())
	assert.NotEqual(t, a.String(), b.String())
	assert.Equal(t, "healthy", a.Variant())
	assert.Equal(t, "2 hung", b.Variant())
	b.Fault, b.Bad, b.Patience = "", 0, 10*time.Millisecond
	assert.Equal(t, "10ms of patience", b.Variant())
	assert.Equal(t, a.Group(), b.Group())
}
