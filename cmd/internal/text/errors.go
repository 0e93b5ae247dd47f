package text

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// FlagNames are the flags for the library's field names.
var FlagNames = strings.NewReplacer("AllowEven", "--allow-even", "MaxTTL", "--max-ttl",
	"MaxClockSkew", "--max-clock-skew", "Recovery", "--recovery", "NodeTimeoutMax", "--node-timeout", "Prefix", "--prefix")

// Plain returns an error's text without the library's prefix, which would appear twice. It escapes text of servers
// for a terminal.
func Plain(err error) string {
	text := strings.ReplaceAll(shortened(err), "quorumlock: ", "")
	if !fromNodes(err) {
		return text
	}
	var held *quorumlock.HeldError
	if errors.As(err, &held) {
		text = strings.ReplaceAll(text, "held by "+held.Owner, "held by "+quorumlock.DescribeOwner(held.Owner))
	}
	return Escaped(text)
}

// shortened returns an error's text without the common part of the nodes' reasons, which [Advice] gives once. It names
// flags instead of fields of the library.
func shortened(err error) string {
	text := err.Error()
	for _, n := range said(err) {
		var recovery *node.RecoveryError
		var settings *node.SettingsError
		var clocks *node.ClockError
		switch {
		case errors.As(n.Err, &recovery):
			text = strings.Replace(text, recovery.Error(), "for another "+Span(recovery.Left), 1)
		case errors.As(n.Err, &settings):
			text = strings.Replace(text, settings.Error(), FlagNames.Replace(settings.Error()), 1)
		case errors.As(n.Err, &clocks):
			text = strings.Replace(text, clocks.Error(), FlagNames.Replace(clocks.Error()), 1)
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

// Advice says what to do about nodes that do not serve this client, or not now. It returns "" if the error needs no
// explanation.
func Advice(err error) string {
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

func fromNodes(err error) bool {
	var one *node.Error
	return errors.As(err, &one) || errors.Is(err, quorumlock.ErrHeld) || errors.Is(err, quorumlock.ErrNoQuorum) || errors.Is(err, quorumlock.ErrLost)
}

// Reason returns why an attempt or a renewal failed, if the context already names the attempt.
func Reason(err error) string {
	text := Plain(err)
	var held *quorumlock.HeldError
	if errors.As(err, &held) {
		return strings.TrimPrefix(text, fmt.Sprintf("%q is ", held.Name))
	}
	var few *quorumlock.NoQuorumError
	if errors.As(err, &few) {
		return strings.TrimPrefix(text, fmt.Sprintf("%s %s: ", few.Op, Keys(few.Names)))
	}
	return text
}

// Keys returns keys as the library's errors name them.
func Keys(keys []string) string {
	if len(keys) == 1 {
		return strconv.Quote(keys[0])
	}
	return fmt.Sprintf("%q", keys)
}

// OfNode returns a node's error for a line that already has the node's name and the operation.
func OfNode(err error) string {
	text := Plain(err)
	var e *node.Error
	if errors.As(err, &e) {
		text = strings.TrimPrefix(text, Escaped(fmt.Sprintf("node %s: ", e.Node)))
		text = strings.TrimPrefix(strings.TrimPrefix(text, e.Op+": "), "connect: ")
	}
	return Escaped(text) // it may be a server's own
}
