package chaos

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
)

// leftovers waits until the workers have ended, and then looks for keys of released locks. The clients still run and
// would renew leaked leases. Locks of killed clients have expired by then. So it need not wait for the TTL.
func (a *arena) leftovers(ctx context.Context) {
	busy, cancel := context.WithTimeout(ctx, clientsEnd)
	defer cancel()
	for !a.resource.idle() {
		if !sleep(busy, 10*time.Millisecond) {
			a.report.violated("workers had not ended %v after they were asked to", clientsEnd)
			return
		}
	}
	bound, cancel := context.WithTimeout(ctx, a.TTL/4)
	defer cancel()
	longer, cancelLonger := context.WithTimeout(ctx, entryEnd)
	defer cancelLonger()
	for _, s := range a.Servers {
		for {
			left, err := leftOn(ctx, s)
			if err == nil && len(left) == 0 {
				break
			}
			until := bound
			if err == nil && !slices.ContainsFunc(left, func(key string) bool { return !expected.MatchString(key) }) {
				until = longer
			}
			if !sleep(until, 50*time.Millisecond) {
				a.report.violated("after all workers have released their locks and ended, %s has the keys %v (%v)", s.Name(), left, err)
				return
			}
		}
	}
}

// lasting matches keys that outlive their users by design and expire by themselves: fences and latches.
var lasting = regexp.MustCompile(`^quorumlock:(fence|latch|latched|awaiting):`)

// expected matches the keys that note when a woken waiter is expected to take permits. Releasing the
// permits deletes them, unless the server came back with older data and lost that release. They then
// expire within entryEnd.
var expected = regexp.MustCompile(`^quorumlock:woken::quorumlock:permits:`)

// entryEnd is longer than an entry lives in a queue.
const entryEnd = 5 * time.Second

// leftOn lists the keys of a server that should be gone, and those that lack an expiry.
func leftOn(ctx context.Context, s faultinject.Server) ([]string, error) {
	text, err := s.Command(ctx, "KEYS", "*")
	if err != nil {
		return nil, err
	}
	keys := strings.Fields(text)
	for _, key := range keys {
		if ttl, err := s.Command(ctx, "PTTL", key); key != "quorumlock:node" && err == nil && ttl == "-1" {
			return []string{key + " (without an end)"}, nil
		}
	}
	return slices.DeleteFunc(keys, func(key string) bool {
		return key == "quorumlock:node" || lasting.MatchString(key)
	}), nil
}
