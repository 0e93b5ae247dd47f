package quorumlock

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxHolderLength is the longest Config.Holder, in bytes.
	MaxHolderLength = 64
	// MaxPurposeLength is the longest LockOptions.Purpose, in bytes.
	MaxPurposeLength = 64
	// NoHolder as Config.Holder keeps out of owner ids who the client is.
	NoHolder = "-"
)

// OwnerInfo is what an owner id says to people. It is part of the id, so it is wherever the lock is,
// for as long, and costs no command.
type OwnerInfo struct {
	// ID is the owner id without what it says to people; no other owner has it.
	ID string
	// Client is the id of the client: all leases of one [Client] share it, and no others.
	Client string
	// Holder is the Config.Holder of the client: where it runs, unless it says otherwise. Empty if
	// it does not tell, and for Redisson's.
	Holder string
	// Purpose is what the lease is for, if it was acquired with a LockOptions.Purpose.
	Purpose string
}

// ParseOwner reads an owner id, as of [Lease.Owner], [HeldError.Owner] and [Status.Owners]. It takes
// any text: what is no id of this library's is the id of a client that tells nothing else.
func ParseOwner(owner string) OwnerInfo {
	id, rest, _ := strings.Cut(owner, " ")
	client, _, _ := strings.Cut(id, ":")
	holder, purpose, _ := strings.Cut(rest, " ")
	if holder == NoHolder {
		holder = ""
	}
	return OwnerInfo{ID: id, Client: client, Holder: holder, Purpose: purpose}
}

// DescribeOwner is an owner id for people: with who that is in brackets. It quotes what cannot be
// printed, as it comes from a server, and ends up on terminals and in logs.
func DescribeOwner(owner string) string {
	id, label, labelled := strings.Cut(owner, " ")
	switch {
	case !ownerIDPattern.MatchString(id), labelled && label == "", strings.ContainsAny(label, "()"),
		checkLabel("", label, len(label), true) != "":
		return strconv.Quote(owner)
	case labelled:
		return fmt.Sprintf("%s (%s)", id, label)
	default:
		return owner
	}
}

// ownerIDPattern are those of ids, ours and Redisson's.
var ownerIDPattern = regexp.MustCompile(`^[A-Za-z0-9:_.-]+$`)

// here is where this process runs: host/pid.
var here = sync.OnceValue(func() string {
	pid := "/" + strconv.Itoa(os.Getpid())
	host, err := os.Hostname()
	if err != nil || checkLabel("", host, MaxHolderLength-len(pid), false) != "" {
		host, _, _ = strings.Cut(host, ".")
	}
	if err != nil || checkLabel("", host, MaxHolderLength-len(pid), false) != "" {
		host = "host"
	}
	return host + pid
})

// checkLabel says what is wrong with a piece of an owner id.
func checkLabel(kind, label string, most int, spaces bool) string {
	switch {
	case len(label) > most:
		return fmt.Sprintf("%s has %d bytes, more than %d", kind, len(label), most)
	case !utf8.ValidString(label) || strings.ContainsFunc(label, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Sprintf("%s %q holds what cannot be printed", kind, label)
	case !spaces && strings.Contains(label, " "):
		return fmt.Sprintf("%s %q holds a space", kind, label)
	default:
		return ""
	}
}

// equalStrings reports whether two purposes are the same.
func equalStrings(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// nextOwner makes an id for a round of acquisition that was never used before.
func (l *Lock) nextOwner() string {
	c := l.client
	var buf [2*MaxHolderLength + MaxPurposeLength]byte
	id := append(buf[:0], c.id...)
	id = append(id, ':')
	id = strconv.AppendUint(id, c.sequence.Add(1), 10)
	holder := c.cfg.Holder
	if holder != NoHolder || l.purpose != nil {
		id = append(append(id, ' '), holder...)
	}
	if l.purpose != nil {
		id = append(append(id, ' '), *l.purpose...)
	}
	return string(id)
}
