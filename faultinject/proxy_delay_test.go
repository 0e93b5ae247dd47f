package faultinject_test

import (
	"bytes"
	"fmt"
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
		l := newProxied(t)
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
	l := newProxied(t)
	l.SetLatency(faultinject.ToServer, latency, 0)
	began := time.Now()
	require.NoError(t, l.client.CloseWrite())
	expectEnd(t, l.server)
	require.GreaterOrEqual(t, time.Since(began), latency)
}

// TestLatencyDelaysAStreamOnce: data sent within one latency arrives after one latency. Delays one after the other
// would exceed the test's patience.
func TestLatencyDelaysAStreamOnce(t *testing.T) {
	const pieces = 200
	l := newProxied(t)
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
		"healing": {
			func(p *faultinject.Proxy) { p.SetLatency(faultinject.BothWays, time.Hour, time.Hour) },
			func(p *faultinject.Proxy) { p.Heal() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachDirection(t, func(t *testing.T, d faultinject.Direction) {
				l := newProxied(t)
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
	l := newProxied(t)
	l.SetLatency(faultinject.ToServer, time.Millisecond, 20*time.Millisecond)
	var want strings.Builder
	for i := range 100 {
		piece := fmt.Sprintf("<%d>", i)
		want.WriteString(piece)
		sendInto(t, l.Proxy, faultinject.ToServer, l.client, piece)
	}
	expect(t, l.server, want.String())
}

// TestChangingConditionsLoseNothing: under all conditions, bytes arrive complete and in order.
func TestChangingConditionsLoseNothing(t *testing.T) {
	l := newProxied(t)
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
		switch rng.IntN(4) {
		case 0:
			p.SetLatency(d, time.Duration(rng.IntN(int(time.Millisecond))), time.Millisecond)
		case 1:
			p.Cut(d)
		case 2:
			p.CutAfter(d, rng.Int64N(10_000), faultinject.ThenHold)
		default:
			p.Heal()
		}
		select {
		case <-stop:
			p.Heal()
			return
		case <-time.After(time.Duration(rng.IntN(int(time.Millisecond)))):
		}
	}
}
