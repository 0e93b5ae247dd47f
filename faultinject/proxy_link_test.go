package faultinject

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// linkAt is a throttled direction, and the time that its test begins.
func linkAt(bytesPerSecond int64) (*link, time.Time) {
	var c conditions
	c.setRate(bytesPerSecond)
	return c.link, time.Unix(100, 0)
}

func ask(l *link, n int, now time.Time) (*portion, chan struct{}) {
	wake := make(chan struct{}, 1)
	return l.ask(n, now, wake), wake
}

// requireSent demands that a portion is sent at a time, and no earlier.
func requireSent(t *testing.T, p *portion, at time.Time) {
	t.Helper()
	again, sent := p.send(at.Add(-1))
	require.False(t, sent)
	require.Equal(t, at, again)
	_, sent = p.send(at)
	require.True(t, sent)
	_, sent = p.send(at)
	require.True(t, sent, "once sent, it stays so")
}

func TestLinkSendsPortions(t *testing.T) {
	l, now := linkAt(1000)
	p, _ := ask(l, 500, now)
	require.Equal(t, 10, p.size, "as much as in 10 ms")
	requireSent(t, p, now.Add(10*ms))

	l, now = linkAt(1)
	p, _ = ask(l, 500, now)
	require.Equal(t, 1, p.size, "a byte at least")
	requireSent(t, p, now.Add(time.Second))
}

func TestLinkSendsOneAfterTheOther(t *testing.T) {
	l, now := linkAt(1000)
	first, _ := ask(l, 10, now)
	second, wake := ask(l, 5, now)
	again, sent := second.send(now.Add(time.Hour))
	require.False(t, sent)
	require.Zero(t, again, "it is woken")
	require.Empty(t, wake)

	_, sent = first.send(now.Add(12 * ms))
	require.True(t, sent)
	require.NotEmpty(t, wake)
	requireSent(t, second, now.Add(15*ms)) // without a gap, though the first was late
}

func TestLinkGivesNoCreditForIdleTime(t *testing.T) {
	l, now := linkAt(1000)
	first, _ := ask(l, 10, now)
	requireSent(t, first, now.Add(10*ms))
	later := now.Add(time.Hour)
	second, _ := ask(l, 10, later)
	requireSent(t, second, later.Add(10*ms))
}

func TestLinkForgetsWhoLeaves(t *testing.T) {
	l, now := linkAt(1000)
	first, _ := ask(l, 10, now)
	second, secondWake := ask(l, 10, now)
	third, thirdWake := ask(l, 10, now)

	second.leave()
	require.Empty(t, thirdWake, "it is not the first yet")
	first.leave()
	first.leave()
	require.NotEmpty(t, thirdWake)
	require.Empty(t, secondWake)
	requireSent(t, third, now.Add(10*ms))
	require.Empty(t, l.line)
}

func TestLinkWithoutALimit(t *testing.T) {
	for _, rate := range []int64{0, -1} {
		l, _ := linkAt(rate)
		require.Nil(t, l)
	}
}

// TestFlowLeavesTheLinkWhenItMayNotPass: a flow that may not pass its data does not block others.
func TestFlowLeavesTheLinkWhenItMayNotPass(t *testing.T) {
	for name, change := range map[string]func(p *Proxy, f *flow){
		"cut":        func(p *Proxy, _ *flow) { p.toServer.held = true },
		"delayed":    func(p *Proxy, _ *flow) { p.toServer.latency = time.Hour },
		"no more":    func(_ *Proxy, f *flow) { f.clear() },
		"over":       func(_ *Proxy, f *flow) { f.conn.end(false) },
		"taken away": func(p *Proxy, _ *flow) { p.toServer.limit = &byteLimit{reserved: 1} },
	} {
		t.Run(name, func(t *testing.T) {
			p := &Proxy{buffer: 1}
			p.toServer.setRate(1)
			f := newProxyConn(p, 0, nil, func() {}).toServer
			f.push(mark{size: 1, at: time.Now()})
			again, over := f.advance()
			require.NotZero(t, again)
			require.False(t, over)
			require.Len(t, p.toServer.link.line, 1)
			change(p, f)
			f.advance()
			require.Empty(t, p.toServer.link.line)
			require.Nil(t, f.portion)
		})
	}
}
