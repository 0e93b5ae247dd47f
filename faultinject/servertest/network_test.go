package servertest

import (
	"context"
	"testing"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/stretchr/testify/require"
)

func cutOffSilencesOld(t *testing.T, s faultinject.Server) {
	c := dial(t, s.Addr())
	for _, reply := range []string{":1", ":2", ":3"} {
		require.NoError(t, s.CutOff(within(t)))
		require.NoError(t, s.CutOff(within(t)), "the server is cut off already")
		c.send(t, "INCR k")
		c.requireSilence(t)
		require.NotEqual(t, reply[1:], command(t, s, "GET", "k"), "the command did not get through, but other connections see the server")
		require.NoError(t, s.Heal(within(t)))
		require.NoError(t, s.Heal(within(t)), "the network is healed already")
		require.Equal(t, reply, c.receive(t))
	}
}

func cutOffSilencesNew(t *testing.T, s faultinject.Server) {
	require.NoError(t, s.CutOff(within(t)))
	c := dial(t, s.Addr())
	c.send(t, "INCR k")
	c.requireSilence(t)
	require.Equal(t, "0", command(t, s, "DBSIZE"))
	require.NoError(t, s.Heal(within(t)))
	require.Equal(t, ":1", c.receive(t))
	require.Equal(t, ":2", dial(t, s.Addr()).ask(t, "INCR k"))
}

func endWhileCutOff(t *testing.T, s faultinject.Server) {
	for _, end := range []func(context.Context) error{s.Kill, s.Stop} {
		c := dial(t, s.Addr())
		require.Equal(t, "+PONG", c.ask(t, "PING"))
		require.NoError(t, s.CutOff(within(t)))
		require.NoError(t, end(within(t)))
		c.requireSilence(t)
		require.NoError(t, s.Start(within(t)))
		c.requireSilence(t)
		require.NoError(t, s.Heal(within(t)))
		c.requireBroken(t)
		require.Equal(t, "+PONG", dial(t, s.Addr()).ask(t, "PING"))
	}
}
