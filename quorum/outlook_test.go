package quorum_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorumlock/quorumlock/quorum"
)

func TestOutlook(t *testing.T) {
	const (
		ms      = time.Millisecond
		recheck = time.Second
	)
	for _, tc := range []struct {
		name string
		tell func(o *quorum.Outlook)
		want time.Duration
	}{
		{"nothing is known", func(*quorum.Outlook) {}, recheck},
		{"all expire later", func(o *quorum.Outlook) {
			o.Denied(0, 5*time.Second, 0)
			o.Denied(1, 5*time.Second, 0)
		}, recheck},
		{"the second of three expires", func(o *quorum.Outlook) {
			o.Denied(0, 300*ms, 0)
			o.Denied(1, 100*ms, 0)
			o.Denied(2, 200*ms, 0)
		}, 200 * ms},
		{"an unknown one is not expected", func(o *quorum.Outlook) {
			o.Denied(0, 300*ms, 0)
			o.Denied(1, 100*ms, 0)
		}, 300 * ms},
		{"those in front go first", func(o *quorum.Outlook) {
			o.Denied(0, 100*ms, 7)
			o.Denied(1, 100*ms, 7)
		}, 114 * ms},
		{"an idle one is free", func(o *quorum.Outlook) {
			o.Idle(0, 10*ms)
			o.Denied(1, 100*ms, 0)
		}, 100 * ms},
		{"one release: the others follow", func(o *quorum.Outlook) {
			o.Denied(0, 500*ms, 0)
			o.Denied(1, 500*ms, 0)
			o.Woken(1, 40*ms)
		}, 41 * ms},
		{"two releases are enough at once", func(o *quorum.Outlook) {
			o.Woken(1, 40*ms)
			o.Woken(2, 40*ms+500*time.Microsecond)
		}, 40*ms + 500*time.Microsecond},
		{"a wake before its denial", func(o *quorum.Outlook) {
			o.Woken(1, 40*ms)
			o.Denied(1, 900*ms, 0)
			o.Woken(0, 40*ms)
		}, 40 * ms},
		{"the second in line holds back", func(o *quorum.Outlook) {
			o.Denied(0, 900*ms, 1)
			o.Denied(1, 900*ms, 1)
			o.Standby(0, 50*ms)
			o.Standby(1, 52*ms)
		}, 82 * ms},
		{"standing by puts nothing off", func(o *quorum.Outlook) {
			o.Denied(0, 60*ms, 0)
			o.Denied(1, 60*ms, 0)
			o.Standby(0, 50*ms)
			o.Standby(1, 50*ms)
		}, 60 * ms},
		{"another attempt makes it old", func(o *quorum.Outlook) {
			o.Woken(0, 10*ms)
			o.Woken(1, 10*ms)
			o.Ask(20*ms, ms)
		}, recheck + 20*ms},
		{"never stays never", func(o *quorum.Outlook) {
			o.Denied(0, math.MaxInt64, 100)
			o.Denied(1, math.MaxInt64-1, 100)
		}, recheck},
	} {
		o := quorum.NewOutlook(3, 2)
		o.Ask(0, ms)
		tc.tell(&o)
		require.Equal(t, tc.want, o.Next(recheck), tc.name)
	}
	o := quorum.NewOutlook(3, 2)
	require.Zero(t, o.Next(recheck), "the first attempt is worthwhile at once")
}

// The need-th of the expected times counts, whatever their order, unless the check comes
// first.
func TestOutlookTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "nodes")
		need := rapid.IntRange(1, n).Draw(t, "need")
		o := quorum.NewOutlook(n, need)
		asked := time.Duration(rapid.Int64Range(0, 1000).Draw(t, "asked"))
		recheck := time.Duration(rapid.Int64Range(0, 1000).Draw(t, "recheck"))
		o.Ask(asked, time.Millisecond)
		free := make([]time.Duration, n)
		for i := range free {
			free[i] = time.Duration(rapid.Int64Range(0, 3000).Draw(t, "free"))
			o.Denied(i, free[i], 0)
		}
		slices.Sort(free)
		require.Equal(t, min(free[need-1], asked+recheck), o.Next(recheck))
	})
}
