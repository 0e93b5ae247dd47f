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
	require.Equal(t, at.Add(time.Second), c.due(mark{at: at}))
	require.Equal(t, at.Add(31*time.Second), c.due(mark{at: at, luck: 0.5}))
}

func TestDelayDoesNotOverflow(t *testing.T) {
	at := time.Unix(100, 0)
	for _, c := range []conditions{
		{latency: math.MaxInt64/2 + 1, jitter: math.MaxInt64},
		{latency: math.MaxInt64, jitter: math.MaxInt64},
		{latency: math.MaxInt64},
	} {
		require.Equal(t, at.Add(math.MaxInt64), c.due(mark{at: at, luck: 0.75}))
	}
}

func TestJitterComesFromTheSeed(t *testing.T) {
	draw := func(seed, number uint64, d Direction) (drawn [8]float64) {
		p := &Proxy{seed: seed, buffer: 1}
		f := newProxyConn(p, number, nil, nil).flowsOf(d)[0]
		for i := range drawn {
			drawn[i] = f.rng.Float64()
		}
		return drawn
	}
	base := draw(7, 3, ToServer)
	require.Equal(t, base, draw(7, 3, ToServer))
	require.NotEqual(t, base, draw(8, 3, ToServer), "another seed")
	require.NotEqual(t, base, draw(7, 4, ToServer), "another connection")
	require.NotEqual(t, base, draw(7, 3, ToClient), "the other direction")
}

func TestDirectionsHaveNames(t *testing.T) {
	for d, want := range map[Direction]string{
		ToServer: "to the server", ToClient: "to the client", BothWays: "both ways", 9: "direction 9",
	} {
		require.Equal(t, want, d.String())
	}
}
