package faultinject

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDelayIsLatencyAndAPartOfJitter(t *testing.T) {
	c := conditions{latency: time.Second, jitter: time.Minute}
	at := time.Unix(100, 0)
	require.Equal(t, at.Add(time.Second), c.due(piece{at: at}))
	require.Equal(t, at.Add(31*time.Second), c.due(piece{at: at, luck: 0.5}))
}

func TestDelayDoesNotOverflow(t *testing.T) {
	at := time.Unix(100, 0)
	for _, c := range []conditions{
		{latency: math.MaxInt64/2 + 1, jitter: math.MaxInt64},
		{latency: math.MaxInt64, jitter: math.MaxInt64},
		{latency: math.MaxInt64},
	} {
		require.Equal(t, at.Add(math.MaxInt64), c.due(piece{at: at, luck: 0.75}))
	}
}

func TestDirectionsHaveNames(t *testing.T) {
	for d, want := range map[Direction]string{
		ToServer: "to the server", ToClient: "to the client", BothWays: "both ways", 9: "direction 9",
	} {
		require.Equal(t, want, d.String())
	}
}
