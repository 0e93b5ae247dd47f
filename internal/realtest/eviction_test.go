package realtest_test

import (
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// evictingCluster starts servers with a policy that evicts, and no limit yet.
func evictingCluster(t *testing.T) *cluster {
	return startCluster(t, 3, redisproc.WithArgs("--maxmemory-policy", "volatile-lru"))
}

func (c *cluster) limitMemory(limit string) {
	for _, s := range c.servers {
		s.Config("maxmemory", limit)
	}
}

// The client warns once for each node, however often it uses or connects it.
func TestRealAllowEviction(t *testing.T) {
	t.Parallel()
	c := evictingCluster(t)
	c.limitMemory("100mb")
	var log lines
	client := c.client(func(cfg *quorumlock.Config) {
		cfg.AllowEviction, cfg.Logger = true, slog.New(slog.NewTextHandler(&log, nil))
	})
	for range 3 {
		lease := acquire(t, client.RedLock("job"))
		require.NoError(t, lease.Release(t.Context()))
		for i := range c.servers {
			c.command(i, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}
	}
	closeClient(t, client) // a killed connection may have lost a release
	text := log.String()
	for _, s := range c.servers {
		count := 0
		for line := range strings.Lines(text) {
			if strings.Contains(line, "may evict locks") && strings.Contains(line, "node="+s.Addr()+" ") {
				count++
				assert.Contains(t, line, "level=WARN")
				assert.Contains(t, line, "maxmemory-policy is volatile-lru and maxmemory is 104857600 bytes")
			}
		}
		assert.Equal(t, 1, count, "of %s in:\n%s", s.Addr(), text)
	}
}
