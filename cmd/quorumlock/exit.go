package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// The exit codes of quorumlock itself. They avoid the codes that commands commonly use. From 124 to 127, they follow
// timeout, env and shells.
const (
	exitOK         = 0
	exitHeld       = 120
	exitNoQuorum   = 121
	exitLost       = 122
	exitFailure    = 125
	exitNotRunning = 126
	exitNotFound   = 127
	// exitSignal is added to the number of a signal, as in shells.
	exitSignal = 128
)

// exitCodeHelp is the table of the package comment, for --help.
const exitCodeHelp = `Exit codes:
  0        success; run: the command's own status, whatever it is
  1, 2     doctor: warnings, errors
  120      the lock was held by another, or a latch not done, when --wait was over
  121      no quorum: too few nodes answered, agreed or are ready; init: not all are open
  122      the lease was lost, or --max-hold was over: the command was stopped
  125      wrong usage, or another failure of quorumlock itself
  126      the command cannot be invoked
  127      the command was not found
  128+n    signal n ended the command, or the waiting for the lock`

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	// err is nil if the message has been printed, or none is needed.
	err error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError is wrong usage of a command, whose --help the message mentions.
type usageError struct {
	command string
	err     error
}

func (e *usageError) Error() string {
	return fmt.Sprintf("%v\nTry '%s --help'.", e.err, e.command)
}

func (e *usageError) Unwrap() error { return e.err }

// exitCode returns the code for any error. If both are true, "held" takes precedence over "no quorum": a held lock is
// the better news.
func exitCode(err error) int {
	var own *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &own):
		return own.code
	case errors.Is(err, quorumlock.ErrHeld):
		return exitHeld
	case errors.Is(err, quorumlock.ErrNoQuorum):
		return exitNoQuorum
	case errors.Is(err, quorumlock.ErrLost):
		return exitLost
	default:
		return exitFailure
	}
}

// message returns the text to print for an error, or "" for none.
func message(err error) string {
	var own *exitError
	if err == nil || errors.As(err, &own) && own.err == nil {
		return ""
	}
	return plain(err)
}

// plain returns an error's text without the library's prefix, which would appear twice. It escapes text of servers
// for a terminal.
func plain(err error) string {
	text := strings.ReplaceAll(shortened(err), "quorumlock: ", "")
	if !fromNodes(err) {
		return text
	}
	var held *quorumlock.HeldError
	if errors.As(err, &held) {
		text = strings.ReplaceAll(text, "held by "+held.Owner, "held by "+quorumlock.DescribeOwner(held.Owner))
	}
	return escaped(text)
}

// shortened returns an error's text without the common part of the nodes' reasons, which advice prints once. It names
// flags instead of fields of the library.
func shortened(err error) string {
	text := err.Error()
	for _, n := range said(err) {
		var recovery *node.RecoveryError
		var settings *node.SettingsError
		var clocks *node.ClockError
		switch {
		case errors.As(n.Err, &recovery):
			text = strings.Replace(text, recovery.Error(), "for another "+span(recovery.Left), 1)
		case errors.As(n.Err, &settings) && settings.TTL == 0:
			text = strings.Replace(text, settings.Error(), fmt.Sprintf("%s, not %v and %v", inFlags(settings.Node), settings.Client.MaxTTL, settings.Client.MaxClockSkew), 1)
		case errors.As(n.Err, &clocks):
			text = strings.Replace(text, clocks.Error(), flagNames.Replace(clocks.Error()), 1)
		}
	}
	return text
}

// said returns the errors of single nodes, if an error has more than one of them.
func said(err error) []quorumlock.NodeError {
	var few *quorumlock.NoQuorumError
	if errors.As(err, &few) {
		return few.Nodes
	}
	var lost *quorumlock.LostError
	if errors.As(err, &lost) {
		return lost.Nodes
	}
	return nil
}

// advice says what to do about nodes that do not serve this client, or not now. It returns "" if the error needs no
// explanation.
func advice(err error) string {
	if errors.Is(err, node.ErrSettings) {
		return "all programs that use the same nodes need the same --max-ttl and --max-clock-skew; " +
			"'quorumlock init --help' says how to change the limits of the nodes"
	}
	var recovery *node.RecoveryError
	if !errors.As(err, &recovery) {
		return ""
	}
	text := "a node that is new, or has restarted, may have forgotten locks that are still held: it gives no new locks " +
		"until those have expired. Wait: the recovery ends by itself"
	if !recovery.HadMarker {
		text += ". Run 'quorumlock init' only for new servers, which no program has ever used"
	}
	return text
}

// fromNodes reports whether an error may contain text of servers.
func fromNodes(err error) bool {
	var one *node.Error
	return errors.As(err, &one) || errors.Is(err, quorumlock.ErrHeld) || errors.Is(err, quorumlock.ErrNoQuorum) || errors.Is(err, quorumlock.ErrLost)
}

// escaped makes characters visible that would move the cursor, or begin a line that looks like one of quorumlock's
// own.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// reason returns why an attempt or a renewal failed, if the context already names the attempt.
func reason(err error) string {
	text := plain(err)
	var held *quorumlock.HeldError
	if errors.As(err, &held) {
		return strings.TrimPrefix(text, fmt.Sprintf("%q is ", held.Name))
	}
	var few *quorumlock.NoQuorumError
	if errors.As(err, &few) {
		return strings.TrimPrefix(text, fmt.Sprintf("%s %s: ", few.Op, quotedKeys(few.Names)))
	}
	return text
}

// quotedKeys returns keys as the library's errors name them.
func quotedKeys(keys []string) string {
	if len(keys) == 1 {
		return strconv.Quote(keys[0])
	}
	return fmt.Sprintf("%q", keys)
}

// signalCode is the exit code for the end by a signal.
func signalCode(sig os.Signal) int {
	if s, ok := sig.(syscall.Signal); ok {
		return exitSignal + int(s)
	}
	return exitFailure
}
