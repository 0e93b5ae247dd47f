package faultinject

import (
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

func TestThrottledLinkIsBookedWithoutGaps(t *testing.T) {
	var c conditions
	c.setRate(1000)
	now := time.Unix(100, 0)

	first := c.book(500, now)
	require.Equal(t, slot{size: 10, epoch: 1, end: now.Add(10 * time.Millisecond)}, first, "as much as fits a portion")
	second := c.book(5, now)
	require.Equal(t, slot{size: 5, epoch: 1, end: now.Add(15 * time.Millisecond)}, second, "behind the first")
	later := now.Add(time.Hour)
	third := c.book(10, later)
	require.Equal(t, later.Add(10*time.Millisecond), third.end, "no credit for idle time")

	c.setRate(1)
	slow := c.book(10, now)
	require.Equal(t, slot{size: 1, epoch: 2, end: now.Add(time.Second)}, slow, "a byte at least, and the past is forgotten")
}

func TestDirectionsHaveNames(t *testing.T) {
	for d, want := range map[Direction]string{
		ToServer: "to the server", ToClient: "to the client", BothWays: "both ways", 9: "direction 9",
	} {
		require.Equal(t, want, d.String())
	}
}
