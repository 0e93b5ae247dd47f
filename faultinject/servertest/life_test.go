package servertest

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/stretchr/testify/require"
)

func answers(t *testing.T, s faultinject.Server) {
	require.Equal(t, "n1", s.Name())
	_, _, err := net.SplitHostPort(s.Addr())
	require.NoError(t, err)
	c := dial(t, s.Addr())
	require.Equal(t, "+PONG", c.ask(t, "PING"))
	require.Equal(t, "0", command(t, s, "DBSIZE"))
	require.Equal(t, "maxmemory-policy\nnoeviction", command(t, s, "CONFIG", "GET", "maxmemory-policy"))

	require.NoError(t, s.Start(within(t)), "the server runs already")
	require.Equal(t, "+PONG", c.ask(t, "PING"))
	_, err = s.Command(within(t), "NO-SUCH")
	require.ErrorContains(t, err, "n1: command NO-SUCH: ERR unknown command")
}

func killKeepsData(t *testing.T, s faultinject.Server) {
	addr := s.Addr()
	for _, value := range []string{"1", "2", "3"} {
		require.Equal(t, "+OK", dial(t, addr).ask(t, "SET k "+value))
		before := identity(t, s)
		require.NoError(t, s.Kill(within(t)))
		require.NoError(t, s.Kill(within(t)), "the server is down already")
		require.NoError(t, s.Resume(within(t)), "the server is not paused")
		require.True(t, refused(addr))
		require.NoError(t, s.Start(within(t)))
		require.Equal(t, addr, s.Addr())
		require.Equal(t, value, dial(t, addr).ask(t, "GET k"))
		require.NotEqual(t, before, identity(t, s), "each start has another run id")
	}
}

func identity(t *testing.T, s faultinject.Server) string {
	t.Helper()
	return command(t, s, "EVAL", `return string.match(redis.call("INFO", "server"), "run_id:(%w+)")`, "0")
}

func stopKeepsData(t *testing.T, s faultinject.Server) {
	require.Equal(t, "+OK", dial(t, s.Addr()).ask(t, "SET k v"))
	require.NoError(t, s.Stop(within(t)))
	require.NoError(t, s.Stop(within(t)), "the server is down already")
	require.True(t, refused(s.Addr()))
	_, err := s.Command(within(t), "PING")
	require.ErrorContains(t, err, "n1: command PING")
	require.NoError(t, s.Start(within(t)))
	require.Equal(t, "v", dial(t, s.Addr()).ask(t, "GET k"))
}

func wipeLosesData(t *testing.T, s faultinject.Server) {
	addr := s.Addr()
	for range 2 {
		require.Equal(t, "$-1", dial(t, addr).ask(t, "GET k"))
		require.Equal(t, "+OK", dial(t, addr).ask(t, "SET k v"))
		require.NoError(t, s.Kill(within(t)))
		require.NoError(t, s.Wipe(within(t)))
		require.NoError(t, s.Wipe(within(t)))
		require.NoError(t, s.Kill(within(t)))
		require.NoError(t, s.Start(within(t)))
		require.Equal(t, addr, s.Addr())
	}
	require.Equal(t, "$-1", dial(t, addr).ask(t, "GET k"))
}

func wipeNeedsDown(t *testing.T, s faultinject.Server) {
	require.Equal(t, "+OK", dial(t, s.Addr()).ask(t, "SET k v"))
	require.ErrorContains(t, s.Wipe(within(t)), "n1: wipe: the server is running")
	require.Equal(t, "v", dial(t, s.Addr()).ask(t, "GET k"))
}

func endBreaksConnections(t *testing.T, s faultinject.Server) {
	for _, end := range []func(context.Context) error{s.Kill, s.Stop} {
		c := dial(t, s.Addr())
		require.Equal(t, "+PONG", c.ask(t, "PING"))
		require.NoError(t, end(within(t)))
		c.requireBroken(t)
		require.NoError(t, s.Start(within(t)))
	}
}

func pauseHangs(t *testing.T, s faultinject.Server) {
	old := dial(t, s.Addr())
	require.Equal(t, "+PONG", old.ask(t, "PING"))
	for range 3 {
		require.NoError(t, s.Pause(within(t)))
		require.NoError(t, s.Pause(within(t)), "the server is paused already")
		fresh := dial(t, s.Addr())
		old.send(t, "INCR old")
		fresh.send(t, "INCR fresh")
		old.requireSilence(t)
		fresh.requireSilence(t)
		require.NoError(t, s.Resume(within(t)))
		require.NoError(t, s.Resume(within(t)), "the server is not paused")
		require.Regexp(t, `^:\d$`, old.receive(t))
		require.Regexp(t, `^:\d$`, fresh.receive(t))
	}
	require.Equal(t, "3\n3", command(t, s, "MGET", "old", "fresh"))
}

func killWhilePaused(t *testing.T, s faultinject.Server) {
	c := dial(t, s.Addr())
	require.Equal(t, "+OK", c.ask(t, "SET before v"))
	require.NoError(t, s.Pause(within(t)))
	c.send(t, "SET during v")
	c.requireSilence(t) // and it has arrived by now
	require.NoError(t, s.Kill(within(t)))
	c.requireBroken(t)
	require.NoError(t, s.Start(within(t)))
	require.Equal(t, "before", command(t, s, "KEYS", "*"))
}

func stopWhilePaused(t *testing.T, s faultinject.Server) {
	require.Equal(t, "+OK", dial(t, s.Addr()).ask(t, "SET k v"))
	require.NoError(t, s.Pause(within(t)))
	require.NoError(t, s.Stop(within(t)))
	require.NoError(t, s.Start(within(t)))
	require.Equal(t, "v", dial(t, s.Addr()).ask(t, "GET k"))
}

func pauseNeedsRunning(t *testing.T, s faultinject.Server) {
	require.NoError(t, s.Kill(within(t)))
	require.ErrorContains(t, s.Pause(within(t)), "n1: pause: the server is")
}

func bounded(t *testing.T, s faultinject.Server) {
	require.NoError(t, s.Pause(within(t)))
	ctx, cancel := context.WithTimeout(t.Context(), silence)
	defer cancel()
	_, err := s.Command(ctx, "PING")
	require.ErrorIs(t, err, context.DeadlineExceeded)

	require.NoError(t, s.Kill(within(t)))
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, s.Start(ended), context.Canceled)
	require.NoError(t, s.Start(within(t)))
	require.Equal(t, "PONG", command(t, s, "PING"))
}

func concurrent(t *testing.T, s faultinject.Server) {
	var wg sync.WaitGroup
	for _, change := range []func(context.Context) error{s.Kill, s.Start, s.CutOff, s.Kill, s.Start, s.Heal, s.Resume, s.Stop} {
		wg.Go(func() {
			if err := change(within(t)); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() { _, _ = s.Command(within(t), "PING") }) // the server may be down
	}
	wg.Wait()
	require.NoError(t, s.Heal(within(t)))
	require.NoError(t, s.Start(within(t)))
	require.Equal(t, "+PONG", dial(t, s.Addr()).ask(t, "PING"))
}

func closes(t *testing.T, s faultinject.Server) {
	c := dial(t, s.Addr())
	require.Equal(t, "+PONG", c.ask(t, "PING"))
	require.NoError(t, s.Pause(within(t)))
	require.NoError(t, s.CutOff(within(t)))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	c.requireBroken(t)
	_, err := net.DialTimeout("tcp", s.Addr(), patience)
	require.Error(t, err)
	for _, gone := range []func(context.Context) error{s.Start, s.Kill, s.Wipe, s.Pause, s.CutOff, s.Heal} {
		require.ErrorContains(t, gone(within(t)), "n1: ")
	}
	_, err = s.Command(within(t), "PING")
	require.Error(t, err)
}
