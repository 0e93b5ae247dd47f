package quorumlock_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
	"github.com/quorumlock/quorumlock/quorum"
)

func TestBadConfigurationIsNamed(t *testing.T) {
	mem := func(names ...string) (nodes []node.Node) {
		for _, name := range names {
			nodes = append(nodes, memory.New(name, clock.Process()))
		}
		return nodes
	}
	three := mem("a", "b", "c")
	for what, test := range map[string]struct {
		cfg  quorumlock.Config
		says []string
	}{
		"nothing":               {quorumlock.Config{}, []string{"no nodes"}},
		"nodes and addresses":   {quorumlock.Config{Nodes: three, Addresses: []string{"h:1", "h:2"}}, []string{"both Nodes and Addresses"}},
		"losses of Nodes":       {quorumlock.Config{Nodes: mem("a"), AllowUnseenLosses: true}, []string{"AllowUnseenLosses apply to Addresses"}},
		"evictions of Nodes":    {quorumlock.Config{Nodes: mem("a"), AllowEviction: true}, []string{"AllowEviction and AllowUnseenLosses apply to Addresses"}},
		"an even number":        {quorumlock.Config{Nodes: mem("a", "b")}, []string{"2 nodes survive no more failures than 1"}},
		"a nil node":            {quorumlock.Config{Nodes: []node.Node{three[0], nil, three[1]}}, []string{"node 2 is nil"}},
		"the same node twice":   {quorumlock.Config{Nodes: mem("a", "b", "a")}, []string{"node a is listed twice"}},
		"the same address":      {quorumlock.Config{Addresses: []string{"h:1", "redis://u:secret@H:1/3", "h:2"}}, []string{"node h:1 is listed twice"}},
		"a bad address":         {quorumlock.Config{Addresses: []string{"http://u:secret@h:1"}}, []string{"address 1"}},
		"an empty address":      {quorumlock.Config{Addresses: []string{""}}, []string{"address 1: empty"}},
		"addresses and more":    {quorumlock.Config{Addresses: []string{"h:1", "redis://u:secret@h:x"}, TTL: -1}, []string{"2 nodes survive", "address 2: address does not parse", "TTL -1ns"}},
		"a list in one":         {quorumlock.Config{Addresses: []string{"h:1,h:2,h:3"}}, []string{"address 1: several addresses in one"}},
		"a comma at the end":    {quorumlock.Config{Addresses: []string{"h:1", ""}}, []string{"address 2: empty"}},
		"too many nodes":        {quorumlock.Config{Addresses: make([]string, 65)}, []string{"65 nodes are more than 64"}},
		"a negative TTL":        {quorumlock.Config{Nodes: three, TTL: -time.Second}, []string{"TTL -1s is not positive"}},
		"a tiny TTL":            {quorumlock.Config{Nodes: three, TTL: 9 * time.Millisecond}, []string{"TTL 9ms is under 10ms"}},
		"a TTL over the limit":  {quorumlock.Config{Nodes: three, TTL: time.Minute}, []string{"TTL 1m0s is over MaxTTL 10s"}},
		"a fraction":            {quorumlock.Config{Nodes: three, MaxTTL: time.Second + time.Microsecond}, []string{"whole number of milliseconds"}},
		"a TTL for no timeout":  {quorumlock.Config{Nodes: three, TTL: time.Second, NodeTimeoutMax: time.Second}, []string{"too small for NodeTimeoutMax 1s"}},
		"timeouts swapped":      {quorumlock.Config{Nodes: three, NodeTimeoutMin: time.Second, NodeTimeoutMax: time.Millisecond}, []string{"NodeTimeoutMin 1s is over"}},
		"negative timeouts":     {quorumlock.Config{Nodes: three, NodeTimeoutMin: -2, NodeTimeoutMax: -1}, []string{"NodeTimeoutMin -2ns", "NodeTimeoutMax -1ns"}},
		"retries swapped":       {quorumlock.Config{Nodes: three, RetryMin: time.Second, RetryMax: time.Millisecond}, []string{"RetryMin 1s is over"}},
		"an endless connect":    {quorumlock.Config{Nodes: three, ConnectTimeout: math.MaxInt64}, []string{"ConnectTimeout"}},
		"negative retries":      {quorumlock.Config{Nodes: three, RetryMin: -2, RetryMax: -1}, []string{"RetryMin -2ns", "RetryMax -1ns"}},
		"a negative hold limit": {quorumlock.Config{Nodes: three, MaxHold: -1}, []string{"MaxHold -1ns"}},
		"a tiny limit":          {quorumlock.Config{Nodes: three, MaxTTL: 1}, []string{"MaxTTL 1ns is under"}},
		"many things":           {quorumlock.Config{TTL: -1, RetryMin: -1, MaxHold: -1}, []string{"no nodes", "TTL", "RetryMin", "MaxHold"}},
	} {
		t.Run(what, func(t *testing.T) {
			client, err := quorumlock.New(test.cfg)
			require.Nil(t, client)
			require.ErrorIs(t, err, quorumlock.ErrInvalid)
			for _, said := range test.says {
				require.ErrorContains(t, err, said)
			}
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestBadLocksAreNamedAndLeaveNothing(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client(func(cfg *quorumlock.Config) { cfg.NodeTimeoutMax = 500 * time.Millisecond })
		options := func(o quorumlock.LockOptions) *quorumlock.Lock { return c.RedLock("job").With(o) }
		for what, test := range map[string]struct {
			lock *quorumlock.Lock
			says string
		}{
			"an empty name":         {c.RedLock(""), "a name is empty"},
			"a long name":           {c.RedLock(strings.Repeat("x", 513)), "has 513 bytes, more than 512"},
			"a reserved name":       {c.RedLock("quorumlock:node"), "is reserved"},
			"no name":               {c.MultiLock(), "no name"},
			"a name twice":          {c.MultiLock("a", "b", "a"), `name "a" is listed twice`},
			"an empty one among":    {c.MultiLock("a", ""), "a name is empty"},
			"too many names":        {c.MultiLock(make([]string, 129)...), "129 names are more than 128"},
			"a negative TTL":        {options(quorumlock.LockOptions{TTL: -1}), "TTL -1ns is not positive"},
			"a tiny TTL":            {options(quorumlock.LockOptions{TTL: time.Millisecond}), "under 10ms"},
			"a TTL for no timeout":  {options(quorumlock.LockOptions{TTL: time.Second}), "too small for NodeTimeoutMax"},
			"a TTL over the limit":  {options(quorumlock.LockOptions{TTL: time.Minute}), "over MaxTTL"},
			"a negative hold limit": {options(quorumlock.LockOptions{MaxHold: -1}), "MaxHold -1ns is negative"},
			"a negative MinHold":    {options(quorumlock.LockOptions{MinHold: -1}), "MinHold -1ns is negative"},
			"MinHold over MaxTTL":   {options(quorumlock.LockOptions{MinHold: 10 * time.Second}), "over 9.898s, which is MaxTTL 10s less drift"},
			"MinHold over MaxHold":  {options(quorumlock.LockOptions{MinHold: 2, MaxHold: 1}), "MinHold 2ns is over MaxHold 1ns"},
			"MinHold of a Fixed lease": {
				options(quorumlock.LockOptions{Fixed: true, TTL: 5 * time.Second, MinHold: 5 * time.Second}),
				"over 4.948s, after which a Fixed lease with TTL 5s ends",
			},
			"a rule of a minority": {options(quorumlock.LockOptions{Rule: quorum.AtLeast(1)}), "majority"},
			"a rule of too many":   {options(quorumlock.LockOptions{Rule: quorum.AtLeast(4)}), "not that many nodes"},
			"with keeps the name":  {c.RedLock("").With(quorumlock.LockOptions{}), "a name is empty"},
		} {
			_, err := test.lock.Acquire(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrInvalid, what)
			require.ErrorContains(t, err, test.says, what)
			_, err = test.lock.Inspect(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrInvalid, what)
			_, err = test.lock.ForceRelease(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrInvalid, what)
		}
		f.RequireNoKeys()
	})
}

func TestClientTellsItsConfig(t *testing.T) {
	c := clock.Process()
	client, err := quorumlock.New(quorumlock.Config{Nodes: []node.Node{memory.New("n1", c)}, TTL: time.Second, Clock: c, Jitter: func() float64 { return 0.25 }})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close(t.Context())) }()
	cfg := client.Config()
	require.Equal(t, c, cfg.Clock)
	require.Equal(t, 0.25, cfg.Jitter()) //nolint:testifylint // exactly
	require.Equal(t, time.Second, cfg.TTL)
	require.Equal(t, quorumlock.DefaultTTL, cfg.MaxTTL, "the default")
}

func TestNewDoesNotTouchTheNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := quorumlock.New(quorumlock.Config{
			Clock:     clock.Process(),
			Addresses: []string{"192.0.2.1:6379", "rediss://u:p@192.0.2.2", "unix:///nowhere.sock"},
		})
		require.NoError(t, err)
		require.NoError(t, client.Close(t.Context()))
	})
}
