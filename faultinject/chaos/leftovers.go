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
	idle := time.Now()
	for _, s := range a.Servers {
		if !a.swept(ctx, s, idle) {
			return
		}
	}
}

// swept waits until a server has only keys that are in use, and reports whether that happened. Keys that remain for
// more than a quarter of the TTL are slow. Keys that outlive the TTL are a violation.
func (a *arena) swept(ctx context.Context, s faultinject.Server, idle time.Time) bool {
	var late []string
	for {
		left, err := leftOn(ctx, s)
		since := time.Since(idle)
		if err == nil && len(left) == 0 {
			if len(late) > 0 {
				a.report.slow("%v and not %v after all workers had ended, %s had no keys any more; it had %v", since, a.TTL/4, s.Name(), late)
			}
			return true
		}
		unexpected := slices.DeleteFunc(slices.Clone(left), expected.MatchString)
		if since > a.TTL/4 && len(unexpected) > 0 {
			late = unexpected
		}
		if since > max(a.TTL, entryEnd) || !sleep(ctx, 50*time.Millisecond) {
			a.report.violated("%v after all workers have given back what they had and ended, %s has the keys %v (%v)", since, s.Name(), left, err)
			return false
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
