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
	maxHolderLength = 64
	// MaxPurposeLength is the longest LockOptions.Purpose, in bytes.
	MaxPurposeLength = 128
	// noHolder as Config.Holder keeps the client's host and process out of owner ids.
	noHolder = "-"
)

// OwnerInfo is the readable part of an owner id. It is part of the id, so it is wherever the lock
// is, for as long, and costs no command.
type OwnerInfo struct {
	// ID is the unique part of the owner id.
	ID string
	// Client is the id of the client. All leases of one [Client] share it, and no others.
	Client string
	// Holder is the Config.Holder of the client; by default its host and process. It is empty if that is
	// "-", and for Redisson's owners.
	Holder string
	// Purpose is the LockOptions.Purpose with which the lease was acquired, or empty.
	Purpose string
}

// ParseOwner reads an owner id, for example from [Lease.Owner], [HeldError.Owner] or
// [Status.Owners]. It accepts any text: an id that is not of this library counts as the id of a
// client, without further information.
func ParseOwner(owner string) OwnerInfo {
	id, rest, _ := strings.Cut(owner, " ")
	client, _, _ := strings.Cut(id, ":")
	holder, purpose, _ := strings.Cut(rest, " ")
	if holder == noHolder {
		holder = ""
	}
	return OwnerInfo{ID: id, Client: client, Holder: holder, Purpose: purpose}
}

// DescribeOwner returns an owner id for people, with its holder and purpose in brackets. It quotes
// ids with unprintable characters: they come from a server, and end up on terminals and in logs.
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

// ownerIDPattern matches the unique part of our ids and Redisson's ids.
var ownerIDPattern = regexp.MustCompile(`^[A-Za-z0-9:_.-]+$`)

// here returns where this process runs: host/pid.
var here = sync.OnceValue(func() string {
	pid := "/" + strconv.Itoa(os.Getpid())
	host, err := os.Hostname()
	if err != nil || checkLabel("", host, maxHolderLength-len(pid), false) != "" {
		host, _, _ = strings.Cut(host, ".")
	}
	if err != nil || checkLabel("", host, maxHolderLength-len(pid), false) != "" {
		host = "host"
	}
	return host + pid
})

// checkLabel returns what makes a part of an owner id invalid, or "".
func checkLabel(kind, label string, most int, spaces bool) string {
	switch {
	case len(label) > most:
		return fmt.Sprintf("%s has %d bytes, more than %d", kind, len(label), most)
	case !utf8.ValidString(label) || strings.ContainsFunc(label, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Sprintf("%s %q has unprintable characters", kind, label)
	case !spaces && strings.Contains(label, " "):
		return fmt.Sprintf("%s %q has a space", kind, label)
	default:
		return ""
	}
}

// ownerLabel returns the readable part of owner ids, with a space before it, or nothing.
func ownerLabel(holder, purpose string) string {
	switch {
	case purpose != "":
		return " " + holder + " " + purpose
	case holder != noHolder:
		return " " + holder
	default:
		return ""
	}
}
