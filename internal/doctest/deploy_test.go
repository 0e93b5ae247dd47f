package doctest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/node"
)

const deploy = root + "/deploy/"

// compose is the part of deploy/compose.yaml that the test needs.
type compose struct {
	Services map[string]struct {
		Image   string
		Command []string
		Ports   []string
		Volumes []string
	}
	Volumes map[string]any
}

func readCompose(t *testing.T) (c compose, text string) {
	t.Helper()
	data, err := os.ReadFile(deploy + "compose.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, &c))
	return c, string(data)
}

func TestCompose(t *testing.T) {
	c, text := readCompose(t)
	require.Len(t, c.Services, 5)
	var addresses []string
	for i := range 5 {
		name := fmt.Sprintf("locks-%d", i+1)
		s := c.Services[name]
		assert.NotEmpty(t, s.Image, "%s: the merge must work", name)
		require.Len(t, s.Ports, 1)
		address, ok := strings.CutSuffix(s.Ports[0], ":6379")
		assert.True(t, ok, "redis.conf has that port")
		addresses = append(addresses, address)
		assert.Contains(t, c.Volumes, name)
		assert.Contains(t, s.Volumes, name+":/data", "a volume of its own")
		assert.Contains(t, s.Volumes, "./redis.conf:/etc/redis.conf:ro")
	}
	assert.Contains(t, text, "export QUORUMLOCK_NODES="+strings.Join(addresses, ",")+"\n", "the comment must match the file")
}

// TestRedisConf starts real servers as compose does, and acquires a lock on them.
func TestRedisConf(t *testing.T) {
	c, _ := readCompose(t)
	var addresses []string
	for _, s := range c.Services {
		server := redisproc.Start(t, redisproc.WithCommandLine(s.Command, map[string]string{"/etc/redis.conf": deploy + "redis.conf"}))
		addresses = append(addresses, server.Addr())
	}
	useLock(t, addresses, "")
}

// TestUnit starts real servers as the systemd unit does, with the users that docs/servers.md lists. The first can use
// locks and latches. The second can look at them, and change nothing. Other clients can do nothing.
func TestUnit(t *testing.T) {
	unit := strings.Join(read(t, "deploy/redis-locks.service").lines, "\n")
	start := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(unit)
	require.NotNil(t, start)
	users, err := filepath.Abs(deploy + "users.acl") // the server has another directory
	require.NoError(t, err)
	lines, err := os.ReadFile(users)
	require.NoError(t, err)
	require.Equal(t, documentedUsers(t), string(lines), "the file has the rules of docs/servers.md")
	var addresses []string
	for range 3 {
		server := redisproc.Start(t, redisproc.WithCommandLine(strings.Fields(start[1]), map[string]string{
			"/usr/bin/redis-server":       "redis-server",
			"/etc/redis-locks/redis.conf": deploy + "redis.conf",
			"/etc/redis-locks/users.acl":  users,
		}))
		addresses = append(addresses, server.Addr())
	}
	useLock(t, addresses, "locker:secret@")
	locker, viewer := useLatch(t, addresses, "locker:secret@"), newClient(t, addresses, "viewer:another@")
	status, err := viewer.RedLock("job:nightly").Inspect(t.Context())
	require.NoError(t, err)
	for _, n := range status.Nodes {
		require.NoError(t, n.Err)
	}
	_, err = viewer.RedLock("job:nightly").TryAcquire(t.Context())
	require.ErrorIs(t, err, node.ErrAuth)
	require.ErrorIs(t, viewer.Latch("job:import").Await(t.Context()), node.ErrAuth, "the wait ends: no other attempt can help")
	require.ErrorIs(t, locker.Latch("other").Set(t.Context(), 1), node.ErrAuth)
	_, err = admin.Init(t.Context(), lockConfig(addresses, ""))
	require.ErrorIs(t, err, admin.ErrUnanswered, "a client without a password is refused")
	require.ErrorContains(t, err, node.ErrAuth.Error())
}

// documentedUsers returns the file of users from docs/security.md.
func documentedUsers(t *testing.T) string {
	t.Helper()
	users := "user default off\n"
	text := strings.ReplaceAll(strings.Join(read(t, "docs/servers.md").lines, "\n"), "\\\n", " ")
	for _, rules := range strings.Split(text, "ACL SETUSER ")[1:3] {
		rules, _, _ = strings.Cut(rules, "\n")
		users += "user " + strings.Join(strings.Fields(rules), " ") + "\n"
	}
	return users
}

func lockConfig(addresses []string, user string) quorumlock.Config {
	cfg := quorumlock.Config{Logger: slog.New(slog.DiscardHandler)}
	for _, address := range addresses {
		cfg.Addresses = append(cfg.Addresses, "redis://"+user+address)
	}
	return cfg
}

// useLock opens the servers as soon as they answer, and acquires a lock.
func useLock(t *testing.T, addresses []string, user string) {
	t.Helper()
	cfg := lockConfig(addresses, user)
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		_, err := admin.Init(context.Background(), cfg)
		require.NoError(t, err)
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, newClient(t, addresses, user).RedLock("job:nightly").Do(t.Context(), func(ctx context.Context) error { return ctx.Err() }))
}

func newClient(t *testing.T, addresses []string, user string) *quorumlock.Client {
	t.Helper()
	client, err := quorumlock.New(lockConfig(addresses, user))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

// useLatch makes every call of a latch, with a waiter, and returns the client.
func useLatch(t *testing.T, addresses []string, user string) *quorumlock.Client {
	t.Helper()
	client, ctx := newClient(t, addresses, user), t.Context()
	l := client.Latch("job:import")
	require.NoError(t, l.Set(ctx, 1))
	done := make(chan error, 1)
	go func() { done <- l.Await(ctx) }()
	require.NoError(t, l.CountDown(ctx, "customers"))
	require.NoError(t, <-done)
	left, err := l.Count(ctx)
	require.NoError(t, err)
	require.Zero(t, left)
	require.NoError(t, l.Delete(ctx))
	return client
}
