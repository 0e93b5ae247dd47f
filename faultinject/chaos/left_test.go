package chaos

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/workload"
)

// keys is a server that has keys, with their PTTL in text.
type keys struct {
	faultinject.Server
	ttl map[string]string
}

func (k keys) Command(_ context.Context, args ...string) (string, error) {
	if args[0] == "KEYS" {
		return strings.Join(slices.Sorted(maps.Keys(k.ttl)), "\n"), nil
	}
	return k.ttl[args[1]], nil
}

// TestKeysMayStayUntilTheAnnouncedEnd: not longer, and no other keys. The end is announced for all keys of an object.
func TestKeysMayStayUntilTheAnnouncedEnd(t *testing.T) {
	r, d := startResource(t)
	w := &worker{settings: settings{Config: Config{TTL: time.Second}}, resource: d}
	now := clock.System().Now()
	for name, end := range map[string]time.Duration{"gamma": now + time.Minute, "alpha": now + time.Minute, "beta": now + time.Second} {
		require.NoError(t, w.announce(t.Context(), workload.Use{Names: []string{name}}, end))
	}
	a := &activeRun{resource: r}
	left, err := a.leftOn(t.Context(), keys{ttl: map[string]string{
		"quorumlock:node": "-1", "quorumlock:fences": "-1", "quorumlock:permits:gamma": "-1", "quorumlock:latch:{l}": "90000", "quorumlock:lists:": "33000",
		"quorumlock:slots:gamma": "119000", "quorumlock:permit:1:gamma": "50000", "alpha": "59000", "beta": "59000", "delta": "1", "gone": "-2",
	}})
	require.NoError(t, err)
	expected := make(map[string]bool)
	for _, key := range left {
		expected[key.name] = key.expected
	}
	require.Equal(t, map[string]bool{"quorumlock:permit:1:gamma": true, "alpha": true, "beta": false, "delta": false}, expected)

	for _, key := range []string{"alpha", "quorumlock:slots:gamma"} {
		left, err = a.leftOn(t.Context(), keys{ttl: map[string]string{key: "-1"}})
		require.NoError(t, err)
		require.Len(t, left, 1)
		require.False(t, left[0].expected, "no end was announced that lies after its own")
	}
}
