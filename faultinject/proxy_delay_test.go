package faultinject_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject"
)

func TestLatencyDelaysItsDirection(t *testing.T) {
	const latency = 30 * time.Millisecond
	eachDirection(t, func(t *testing.T, d faultinject.Direction) {
		l := newLane(t)
		from, to := l.ends(d)
		l.SetLatency(opposite(d), time.Hour, 0)
		l.SetLatency(d, latency, 0)
		began := time.Now()
		send(t, from, "late")
		expect(t, to, "late")
		require.GreaterOrEqual(t, time.Since(began), latency)
	})
}

func TestLatencyDelaysTheEnd(t *testing.T) {
	const latency = 30 * time.Millisecond
	l := newLane(t)
	l.SetLatency(faultinject.ToServer, latency, 0)
	began := time.Now()
	require.NoError(t, l.client.CloseWrite())
	expectEnd(t, l.server)
	require.GreaterOrEqual(t, time.Since(began), latency)
}

// TestLatencyIsNotPaidPerPiece: data sent within one latency arrives after one latency. Delays one after the other
// would exceed the test's patience.
func TestLatencyIsNotPaidPerPiece(t *testing.T) {
	const pieces = 200
	l := newLane(t)
	l.SetLatency(faultinject.ToServer, 2*patience/pieces, 0)
	for range pieces {
		sendInto(t, l.Proxy, faultinject.ToServer, l.client, "x")
	}
	expect(t, l.server, strings.Repeat("x", pieces))
}

func TestDelaysChangeForBytesUnderWay(t *testing.T) {
	for name, change := range map[string]struct{ slow, plain func(p *faultinject.Proxy) }{
		"latency": {
			func(p *faultinject.Proxy) { p.SetLatency(faultinject.BothWays, time.Hour, 0) },
			func(p *faultinject.Proxy) { p.SetLatency(faultinject.BothWays, 0, 0) },
		},
		"jitter": {
			func(p *faultinject.Proxy) { p.SetLatency(faultinject.BothWays, 0, 1e6*time.Hour) },
			func(p *faultinject.Proxy) { p.SetLatency(faultinject.BothWays, 0, 0) },
		},
		"bandwidth": {
			func(p *faultinject.Proxy) { p.SetBandwidth(faultinject.BothWays, 1) },
			func(p *faultinject.Proxy) { p.SetBandwidth(faultinject.BothWays, 1e12) },
		},
		"healing": {
			func(p *faultinject.Proxy) {
				p.SetLatency(faultinject.BothWays, time.Hour, time.Hour)
				p.SetBandwidth(faultinject.BothWays, 1)
			},
			func(p *faultinject.Proxy) { _ = p.Heal() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachDirection(t, func(t *testing.T, d faultinject.Direction) {
				l := newLane(t)
				from, to := l.ends(d)
				change.slow(l.Proxy)
				text := strings.Repeat("0123456789", 5000)
				sendInto(t, l.Proxy, d, from, text)
				expectSilence(t, to)
				change.plain(l.Proxy)
				expect(t, to, text)
			})
		})
	}
}

func TestJitterKeepsTheOrder(t *testing.T) {
	l := newLane(t, faultinject.JitterSeed(11))
	l.SetLatency(faultinject.ToServer, time.Millisecond, 20*time.Millisecond)
	var want strings.Builder
	for i := range 100 {
		piece := fmt.Sprintf("<%d>", i)
		want.WriteString(piece)
		sendInto(t, l.Proxy, faultinject.ToServer, l.client, piece)
	}
	expect(t, l.server, want.String())
}

func TestBandwidthIsALowerBoundOnTime(t *testing.T) {
	const rate, size = 200_000, 30_000
	const least = size * time.Second / rate
	eachDirection(t, func(t *testing.T, d faultinject.Direction) {
		l := newLane(t)
		from, to := l.ends(d)
		l.SetBandwidth(opposite(d), 1)
		l.SetBandwidth(d, rate)
		data := randomBytes(5, size)
		began := time.Now()
		require.Equal(t, data, transfer(t, from, to, data))
		require.GreaterOrEqual(t, time.Since(began), least)
	})
}

func TestBandwidthIsSharedByConnections(t *testing.T) {
	const rate, size, conns = 400_000, 20_000, 3
	l := newLane(t)
	l.SetBandwidth(faultinject.ToServer, rate)
	data := randomBytes(6, size)
	began := time.Now()
	var wg sync.WaitGroup
	clients := []lane{l}
	for range conns - 1 {
		client := dial(t, l.Proxy)
		clients = append(clients, lane{client: client, server: l.backend.accept()})
	}
	got := make([][]byte, conns)
	for i, c := range clients {
		wg.Go(func() { got[i] = transfer(t, c.client, c.server, data) })
	}
	wg.Wait()
	require.GreaterOrEqual(t, time.Since(began), conns*size*time.Second/rate)
	for _, g := range got {
		require.Equal(t, data, g)
	}
}

// TestChangingConditionsLoseNothing: under all conditions, bytes arrive complete and in order.
func TestChangingConditionsLoseNothing(t *testing.T) {
	l := newLane(t, faultinject.BufferSize(8<<10))
	up, down := randomBytes(7, 1<<20), randomBytes(8, 1<<20)
	stop := make(chan struct{})
	var changing, moving sync.WaitGroup
	changing.Go(func() { changeAtRandom(l.Proxy, stop) })
	var gotUp, gotDown []byte
	moving.Go(func() { gotUp = transfer(t, l.client, l.server, up) })
	moving.Go(func() { gotDown = transfer(t, l.server, l.client, down) })
	moving.Wait()
	close(stop)
	changing.Wait()
	require.True(t, bytes.Equal(up, gotUp))
	require.True(t, bytes.Equal(down, gotDown))
}

// changeAtRandom makes changes, with at most a moment of trouble at a time.
func changeAtRandom(p *faultinject.Proxy, stop <-chan struct{}) {
	rng := rand.New(rand.NewPCG(9, 9))
	for {
		d := faultinject.Direction(1 + rng.IntN(3))
		switch rng.IntN(5) {
		case 0:
			p.SetLatency(d, time.Duration(rng.IntN(int(time.Millisecond))), time.Millisecond)
		case 1:
			p.SetBandwidth(d, 10_000_000+rng.Int64N(10_000_000))
		case 2:
			p.Cut(d)
		case 3:
			p.CutAfter(d, rng.Int64N(10_000), faultinject.ThenHold)
		default:
			_ = p.Heal()
		}
		select {
		case <-stop:
			_ = p.Heal()
			return
		case <-time.After(time.Duration(rng.IntN(int(time.Millisecond)))):
		}
	}
}

// Connections that end before their turn leave the link as free as if they had never been.
func TestDeadConnectionsTakeNoBandwidth(t *testing.T) {
	const rate, conns = 2, 50
	b := newBackend(t)
	p := startProxy(t, b.l.Addr().String())
	p.SetBandwidth(faultinject.ToServer, rate)
	for range conns {
		client := dial(t, p)
		b.accept()
		sendInto(t, p, faultinject.ToServer, client, "x")
	}
	p.Reset()
	client := dial(t, p)
	server := b.accept()
	began := time.Now()
	send(t, client, "x")
	expect(t, server, "x")
	require.Less(t, time.Since(began), conns/3*time.Second/rate)
}

// One connection that has much to send leaves the others their turns, and the other way round.
func TestBandwidthIsSharedInTurns(t *testing.T) {
	const rate = 2000
	l := newLane(t)
	small := dial(t, l.Proxy)
	smallServer := l.backend.accept()
	l.SetBandwidth(faultinject.ToServer, rate)
	sendInto(t, l.Proxy, faultinject.ToServer, l.client, strings.Repeat("x", 5*rate))
	send(t, small, "y")
	expect(t, smallServer, "y")
	require.Less(t, l.Stats().ToServer.Passed, uint64(2*rate))
}

// A receiver that takes nothing does not stop a throttled link for the others.
func TestThrottledLinkGoesOnBesideAStuckReceiver(t *testing.T) {
	const rate = 1 << 30
	l := newLane(t)
	stick(t, l)
	other := dial(t, l.Proxy)
	otherServer := l.backend.accept()
	l.SetBandwidth(faultinject.ToServer, rate)
	send(t, other, "y")
	expect(t, otherServer, "y")
}

func TestLongestLatencyIsForEver(t *testing.T) {
	for name, c := range map[string]struct{ latency, jitter time.Duration }{
		"latency":      {math.MaxInt64, 0},
		"jitter":       {math.MaxInt64 / 2, math.MaxInt64},
		"both":         {math.MaxInt64, math.MaxInt64},
		"over by some": {math.MaxInt64/2 + 1, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLane(t)
			l.SetLatency(faultinject.ToServer, c.latency, c.jitter)
			sendInto(t, l.Proxy, faultinject.ToServer, l.client, "never")
			sendInto(t, l.Proxy, faultinject.ToServer, l.client, "ever")
			expectSilence(t, l.server)
		})
	}
}
