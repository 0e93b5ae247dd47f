package realtest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

func TestRealExclusionBetweenProcesses(t *testing.T) {
	t.Parallel()
	span := longer(5*time.Second, 30*time.Second) // This is enough for some pauses, and about a thousand sections.
	c := startCluster(t, 5)
	dir := t.TempDir()
	var processes [4]*child
	for i := range processes {
		processes[i] = c.spawn("contend", childTTL+"=3s", childSpan+"="+span.String(), childDir+"="+dir)
	}
	var said [len(processes)][]string
	var readers sync.WaitGroup
	for i, p := range processes {
		readers.Go(func() { said[i] = p.lines() })
	}
	ctx, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()
	pauses := c.pauseInTurn(ctx, func(int) bool { return false })
	readers.Wait()

	lost := map[string]bool{}
	var clashes [][]string
	least := math.MaxInt
	for i := range said {
		sections := 0
		for _, line := range said[i] {
			switch words := strings.Fields(line); {
			case len(words) == 0:
			case words[0] == "section":
				sections++
			case words[0] == "lost":
				lost[words[1]] = true
			case words[0] == "clash":
				clashes = append(clashes, append(words[1:], "?")) // The other process may not have written its name yet.
			case words[0] == "broken":
				t.Error(line)
			}
		}
		t.Logf("process %d: %d sections", i, sections)
		least = min(least, sections)
	}
	clashes = slices.DeleteFunc(clashes, func(c []string) bool { return lost[c[1]] })
	require.Empty(t, clashes, "two leases were valid at once")
	t.Logf("%d leases lost, %d pauses of a node", len(lost), pauses)
	c.noKeys()
	require.Greater(t, least, 5, "every process needs sections")
}

func TestRealKilledHolder(t *testing.T) {
	t.Parallel()
	const ttl = patientTTL
	c := startCluster(t, 5)
	holder := c.spawn("hold", childTTL+"="+ttl.String())
	owner := holder.line(t, "held")
	lock := c.client(withTTL(ttl)).RedLock("job")

	try := func() *quorumlock.Lease {
		lease, err := lock.TryAcquire(t.Context())
		if err == nil {
			return lease
		}
		var held *quorumlock.HeldError
		if errors.As(err, &held) {
			require.Equal(t, owner, held.Owner)
		} else {
			require.ErrorIs(t, err, quorumlock.ErrNoQuorum) // A node was slow.
		}
		return nil
	}
	for began := time.Now(); time.Since(began) < ttl*3/2; {
		if try() == nil {
			continue
		}
		// If its process got no processor for most of a TTL, the holder did not renew. It must know that.
		_, err := fmt.Fprintln(holder.in, "how is it?")
		require.NoError(t, err)
		state := holder.line(t, "lease")
		require.NotEqual(t, "valid", state, "two leases are valid at once")
		t.Fatalf("a live holder must keep the lock for longer than a TTL: %s", state)
	}

	holder.kill()
	killed := time.Now()
	left := make([]time.Duration, 0, len(c.servers))
	for i := range c.servers {
		left = append(left, time.Duration(c.number(i, "PTTL", "job"))*time.Millisecond)
	}
	slices.Sort(left)
	quorumFree := left[2] - time.Millisecond // PTTL is rounded.

	var next *quorumlock.Lease
	eventually(t, ttl+soon, func() bool { next = try(); return next != nil }, "the lock of the dead holder is free")
	require.GreaterOrEqual(t, time.Since(killed), quorumFree, "the lock was free before the keys on three nodes expired: %v", left)
	t.Logf("free %v after the kill; TTLs at the kill: %v", time.Since(killed).Round(time.Millisecond), left)
	require.NoError(t, next.Release(t.Context()))
	c.noKeys()
}
