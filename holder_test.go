package quorumlock_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

func ExampleParseOwner() {
	owner := "LQ5QKLWAQNJZN6MSXBK6YHVZVE:12 web-3/4711 import of orders"
	who := quorumlock.ParseOwner(owner)
	fmt.Println(who.Holder)
	fmt.Println(who.Purpose)
	// Output:
	// web-3/4711
	// import of orders
}

// The owner id tells on every node which process holds the lock, and for which purpose. A denied
// client sees it too.
func TestOwnerIDHasLabels(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		lock := c.RedLock("job").With(quorumlock.LockOptions{Purpose: "import of orders"})
		lease, err := lock.TryAcquire(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, lease.Release(t.Context())) }()

		host, err := os.Hostname()
		require.NoError(t, err)
		who := quorumlock.ParseOwner(lease.Owner())
		assert.Equal(t, fmt.Sprintf("%s/%d", host, os.Getpid()), who.Holder)
		assert.Equal(t, "import of orders", who.Purpose)

		status, err := c.RedLock("job").Inspect(t.Context())
		require.NoError(t, err)
		assert.Equal(t, lease.Owner(), status.Holder())
		_, err = c.RedLock("job").TryAcquire(t.Context())
		var held *quorumlock.HeldError
		require.ErrorAs(t, err, &held)
		assert.Equal(t, who, quorumlock.ParseOwner(held.Owner))

		other, err := c.RedLock("other").TryAcquire(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, other.Release(t.Context())) }()
		assert.Equal(t, quorumlock.OwnerInfo{ID: other.Owner()[:strings.Index(other.Owner(), " ")], Client: who.Client, Holder: who.Holder}, quorumlock.ParseOwner(other.Owner()))
	})
}

func TestConfigHolder(t *testing.T) {
	for holder, want := range map[string]string{"worker-7": "worker-7", "-": ""} {
		fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
			c := f.Client(func(cfg *quorumlock.Config) { cfg.Holder = holder })
			for _, purpose := range []string{"", "to see"} {
				lease, err := c.RedLock("job").With(quorumlock.LockOptions{Purpose: purpose}).TryAcquire(t.Context())
				require.NoError(t, err)
				who := quorumlock.ParseOwner(lease.Owner())
				assert.Equal(t, quorumlock.OwnerInfo{ID: who.ID, Client: who.Client, Holder: want, Purpose: purpose}, who)
				require.NoError(t, lease.Release(t.Context()))
			}
		})
	}
}

func TestHoldersAndPurposesThatAreRefused(t *testing.T) {
	nodes := []node.Node{memory.New("a", nil)}
	for holder, problem := range map[string]string{
		"a b":                   "has a space",
		"a\nb":                  "has unprintable characters",
		"\xff":                  "has unprintable characters",
		strings.Repeat("x", 65): "65 bytes, more than 64",
	} {
		_, err := quorumlock.New(quorumlock.Config{Nodes: nodes, Holder: holder})
		require.ErrorIs(t, err, quorumlock.ErrInvalid, holder)
		require.ErrorContains(t, err, problem)
	}
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		for _, purpose := range []string{"a\nb", strings.Repeat("x", 129)} {
			_, err := c.RedLock("job").With(quorumlock.LockOptions{Purpose: purpose}).TryAcquire(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrInvalid)
			require.ErrorContains(t, err, "Purpose")
		}
		longest := strings.Repeat("x", 128)
		lease := fleet.MustAcquire(t, c.RedLock("job").With(quorumlock.LockOptions{Purpose: longest}))
		require.Equal(t, longest, quorumlock.ParseOwner(lease.Owner()).Purpose)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// Owner ids may have any form, as other programs keep locks on the same servers too.
func FuzzParseOwner(f *testing.F) {
	f.Add("LQ5QKLWAQNJZN6MSXBK6YHVZVE:12 web-3/4711 import of orders")
	f.Add("a1b2:34")
	f.Add("")
	f.Add(" - x")
	f.Fuzz(func(t *testing.T, owner string) {
		who := quorumlock.ParseOwner(owner)
		for _, part := range []string{who.ID, who.Client, who.Holder, who.Purpose} {
			assert.Contains(t, owner, part)
			assert.True(t, utf8.ValidString(part) || !utf8.ValidString(owner))
		}
		assert.NotContains(t, who.ID+who.Client+who.Holder, " ")
	})
}

// Nodes report times in milliseconds, and errors show the times that a client computes in the same
// way.
func TestTimesInErrorsAreForPeople(t *testing.T) {
	for owner, want := range map[string]string{
		"":                   `quorumlock: "job" is free but reserved for an earlier waiter for 9.594s`,
		"ABC:1":              `quorumlock: "job" is held by ABC:1 for another 9.594s unless renewed`,
		node.Readers:         `quorumlock: "job" is held by readers for another 9.594s unless renewed`,
		"quorumlock:permits": `quorumlock: "job" is held by others for another 9.594s unless renewed`,
	} {
		err := &quorumlock.HeldError{Name: "job", Owner: owner, TTL: 9594323017}
		assert.EqualError(t, err, want)
	}
}

// Any program may write an owner id to a server, and errors print it on terminals.
func TestOwnersInErrors(t *testing.T) {
	for owner, want := range map[string]string{
		"ABC:1":                      "held by ABC:1 for",
		"ABC:1 web-3/4711":           "held by ABC:1 (web-3/4711) for",
		"ABC:1 web-3/4711 übernacht": "held by ABC:1 (web-3/4711 übernacht) for",
		"ABC:1 (you) as":             `held by "ABC:1 (you) as" for`,
		"k,forged":                   `held by "k,forged" for`,
		"ABC:1 ":                     `held by "ABC:1 " for`,
		"ABC\x1b[31m":                `held by "ABC\x1b[31m" for`,
		"ABC:1 web\x1b[31m":          `held by "ABC:1 web\x1b[31m" for`,
	} {
		err := &quorumlock.HeldError{Name: "job", Owner: owner}
		assert.ErrorContains(t, err, want)
	}
}

// A hand-over keeps the owner id, so a lease is handed over only for the same purpose.
func TestHandoverNeedsTheSamePurpose(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lock := f.Client().RedLock("job")
		billing := lock.With(quorumlock.LockOptions{Purpose: "billing"})
		again := lock.With(quorumlock.LockOptions{Purpose: "billing"})
		all := fleet.LineUp(t, billing, again, lock.With(quorumlock.LockOptions{Purpose: "backup"}), lock)
		first := all[0].Has()
		require.NoError(t, first.Release(t.Context()))
		second := all[1].Has()
		require.Equal(t, first.Owner(), second.Owner(), "handed over")
		for i, purpose := range []string{"backup", ""} {
			require.NoError(t, all[1+i].Has().Release(t.Context()))
			require.Equal(t, purpose, quorumlock.ParseOwner(all[2+i].Has().Owner()).Purpose)
		}
		require.NoError(t, all[3].Has().Release(t.Context()))
	})
}
