package nodetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node/memory"
)

// Each of these lines expects another reply than a node gives, so it must fail.
func TestWrongExpectationsFail(t *testing.T) {
	for _, wrong := range []string{
		"acquire o2 b -> denied", "acquire o2 b -> granted recovering", "acquire o2 b -> granted token>0", "acquire o2 b -> settings",
		"acquire o2 a -> granted", "acquire o2 a -> denied b", "acquire o2 a -> denied a o2", "acquire o2 a -> denied a o1 40s",
		"acquire o2 a -> denied a o1 5m", "acquire o2 a -> denied token=t+1", "acquire o2 a -> denied ttl>60s", "acquire o2 a -> denied rank=1",
		"acquire o1 a token=t -> granted", "renew o1 a b -> granted", "release o1 a b -> released", "release o1 a -> released partial",
		"read r b -> granted token=t", "inspect a -> inspected none", "inspect a -> inspected (a o2 60s)", "inspect a -> inspected (a o1 40s)",
		"inspect a -> inspected (a o1 60s t-1)", "inspect a -> inspected (a o1 60s reads)", "inspect a -> inspected (a o1 60s) (b o1 60s)",
		"acquire o2 b ttl=121s -> settings ttl=120s", "acquire o2 b ttl=121s -> settings", "acquire o2 b token=1 -> clock limit=30s",
		"mark -> inspected restarted", "mark -> inspected id=another", "mark -> inspected since>0", "open nothing -> granted",
		"take o 0 of=2; take p 0 of=2 -> granted, denied free=0", "take o 0 of=2; take p 0 of=2 -> granted, denied free=1 of=3",
		"set l 2; look l -> granted, granted (1)", "set l 2; look l -> granted, granted to=3", "look l -> granted whole",
		"acquire o2 b & release o2 b -> granted, absent", "acquire o2 b & acquire o3 b -> granted",
		"refresh c:1#1 a -> inspected (come)", "refresh c:1#1 a -> inspected (a o2 60s 0)", "refresh c:1#1 a -> inspected (a o1 60s 1)",
		"refresh c:1#1 a -> inspected (a - 0)", "refresh c:1#1 a -> inspected (a o1 60s 0) (come)", "refresh c:1#1 b -> inspected (unknown)",
		"keys", "keys a b", "lives 40s a", "fence t+1 a", "readers a o1", "probe -> closed",
		"queued d c:1\ntold woken c:1 d", "queued d c:1\nrelease o1 d\ntold nothing", "queued d c:1\nrelease o1 d\ntold standby c:1 d",
		"queued d c:1\nrelease o1 d\ntold woken c:1 d fence=t", "queued d c:1\nrelease o1 d\ntold at most 0", "listen \"=c:\"", "listen c -> closed",
	} {
		t.Run(wrong, func(t *testing.T) {
			c := testkit.NewClock(time.Unix(1_700_000_000, 0))
			m := memory.New("memory", c)
			t.Cleanup(func() { _ = m.Close() })
			x := &trial{
				T: t, Subject: Subject{Node: m, Pass: c.Advance, Keys: m.Keys}, limits: limits, ctx: context.Background(), boxes: map[string]*box{},
			}
			x.tell(nil, []step{{text: "open"}, {text: "listen c"}, {text: "acquire o1 a token=t -> granted"}})
			x.vars["t"] = x.do(x.ops(scan("inspect a"))...)[0].Holders[0].Token
			require.Error(t, x.ask(strings.Split(wrong, "\n")...))
		})
	}
}
