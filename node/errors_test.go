package node_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

func TestErrorText(t *testing.T) {
	cause := errors.New("EOF")
	for want, err := range map[string]*node.Error{
		"node a:1: connect: unreachable: EOF":        {Node: "a:1", Reason: node.ErrUnreachable, Err: cause},
		"node a:1: acquire: timeout":                 {Node: "a:1", Op: wire.Acquire.String(), Reason: node.ErrTimeout},
		"node a:1: renew: canceled":                  {Node: "a:1", Op: wire.Renew.String(), Reason: node.ErrCanceled},
		"node a:1: release: rejected: EOF":           {Node: "a:1", Op: wire.Release.String(), Reason: node.ErrRejected, Err: cause},
		"node a:1: inspect: access denied":           {Node: "a:1", Op: wire.Inspect.String(), Reason: node.ErrAuth},
		"node a:1: force-release: node is closed":    {Node: "a:1", Op: wire.ForceRelease.String(), Reason: node.ErrClosed},
		"node a:1: open: rejected":                   {Node: "a:1", Op: wire.Open.String(), Reason: node.ErrRejected},
		"node a:1: unknown operation: access denied": {Node: "a:1", Op: wire.Kind(99).String(), Reason: node.ErrAuth},
	} {
		assert.EqualError(t, err, want)
	}
}

// The local port differs between connections, so the error omits it.
func TestErrorsDoNotTellOurPort(t *testing.T) {
	here, there := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6379}
	broken := &net.OpError{Op: "read", Net: "tcp", Source: here, Addr: there, Err: os.ErrDeadlineExceeded}
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: there, Err: syscall.ECONNREFUSED}
	for want, cause := range map[string]error{
		"node a:1: connect: unreachable: read: i/o timeout":                               broken,
		"node a:1: connect: unreachable: wrapped: read: i/o timeout":                      fmt.Errorf("wrapped: %w", broken),
		"node a:1: connect: unreachable: dial tcp 127.0.0.1:6379: " + refused.Err.Error(): refused,
	} {
		err := &node.Error{Node: "a:1", Reason: node.ErrUnreachable, Err: cause}
		require.EqualError(t, err, want)
		assert.ErrorIs(t, err, cause)
	}
}

// A server may send an error of any text. Errors and log lines show the beginning of a long one.
func TestErrorsCutTheTextOfAServer(t *testing.T) {
	long := strings.Repeat("é", 30_000)
	n := open(t, redisproc.Serve(t, fake(always("!60000\r\n"+long+"\r\n"))).Addr())
	for range 2 {
		text := failure(t, node.ErrRejected, n, acquire("o1", "a")).Error()
		assert.Less(t, len(text), 700, "%.1000s", text)
		assert.Contains(t, text, "rejected: éé")
		assert.True(t, strings.HasSuffix(text, "éé ... (60000 bytes)"), "%.1000q", text)
	}
}

func TestErrorUnwraps(t *testing.T) {
	cause := &node.Error{Node: "a:1", Reason: node.ErrTimeout}
	err := error(&node.Error{Node: "a:1", Op: wire.Acquire.String(), Reason: node.ErrDown, Err: cause})
	require.ErrorIs(t, err, node.ErrDown)
	require.ErrorIs(t, err, node.ErrTimeout)
	require.NotErrorIs(t, err, node.ErrAuth)
	require.ErrorIs(t, &node.Error{Reason: node.ErrAuth}, node.ErrAuth)
}

func TestErrorPermanent(t *testing.T) {
	for reason, want := range map[error]bool{
		node.ErrTimeout:     false,
		node.ErrUnreachable: false,
		node.ErrAuth:        true,
		node.ErrWrongType:   true,
		node.ErrRejected:    false,
		node.ErrProtocol:    true,
		node.ErrClosed:      true,
		node.ErrDown:        false,
		node.ErrCanceled:    false,

		node.ErrMisconfigured: true,
		node.ErrRecovering:    false,
		node.ErrSettings:      true,
		node.ErrClock:         false,
		node.ErrSameServer:    true,
		node.ErrBusy:          false,
	} {
		err := &node.Error{Reason: reason}
		assert.Equal(t, want, err.Permanent(), "%v", reason)
		down := &node.Error{Reason: node.ErrDown, Err: err}
		assert.Equal(t, want, down.Permanent(), "down because of: %v", reason)
	}
	assert.False(t, (&node.Error{Reason: node.ErrDown, Err: errors.New("x")}).Permanent())
}

func TestStrings(t *testing.T) {
	for o, want := range map[wire.Outcome]string{
		wire.Unknown: "unknown", wire.Granted: "granted", wire.Healed: "healed", wire.Denied: "denied",
		wire.Released: "released", wire.Absent: "absent", wire.Inspected: "inspected", 99: "invalid outcome",
	} {
		assert.Equal(t, want, o.String())
	}
	for k, want := range map[wire.Kind]string{
		wire.Acquire: "acquire", wire.Renew: "renew", wire.Release: "release", wire.Inspect: "inspect",
		wire.ForceRelease: "force-release", wire.Mark: "mark", wire.Open: "open", 0: "", 99: "unknown operation",
	} {
		assert.Equal(t, want, k.String())
	}
}

// The message of a refusal must tell the reader what to do.
func TestRefusalTexts(t *testing.T) {
	ours, theirs := node.Limits{MaxTTL: time.Minute, MaxClockSkew: time.Second}, node.Limits{MaxTTL: time.Hour, MaxClockSkew: 2 * time.Second}
	for _, c := range []struct {
		err   error
		parts []string
	}{
		{&node.RecoveryError{Left: 4 * time.Second, Length: 11 * time.Second}, []string{"began 7s ago", "ends in 4s", "it is new, or has lost its memory", "quorumlock init"}},
		{&node.RecoveryError{Left: 4 * time.Second, Length: 11 * time.Second, HadMarker: true}, []string{"a restart, a failover"}},
		{&node.SettingsError{Own: ours, Other: theirs, Holder: "web/7", Left: 90 * time.Second}, []string{
			"this program has MaxTTL 1m0s, MaxClockSkew 1s and Recovery 1m1s", "web/7 has MaxTTL 1h0m0s, MaxClockSkew 2s and Recovery 1h0m2s",
			"both need a Recovery of 1h0m2s", "wait 1m31s",
		}},
		{&node.SettingsError{Protocol: 1, OtherProtocol: 2, Holder: "web/7"}, []string{"speaks protocol 1, and web/7 speaks protocol 2", "docs/upgrading.md"}},
		{&node.SettingsError{Own: ours, TTL: time.Hour}, []string{"TTL 1h0m0s exceeds MaxTTL 1m0s"}},
		{&node.ClockError{Ahead: time.Hour, Limit: time.Second}, []string{"1h0m0s ahead of", " 1s (MaxClockSkew)"}},
		{&node.ClockError{Ahead: -time.Hour, Limit: time.Minute}, []string{"1h0m0s behind", " 1m0s (MaxTTL)"}},
	} {
		for _, part := range c.parts {
			assert.Contains(t, c.err.Error(), part)
		}
	}
}
