// Package rights lists the rights that a Redis user needs, as rules of an ACL. The documentation, the check of
// servers and the tests all use this list. The tests show that the rights suffice, and that each is necessary.
package rights

import (
	"slices"
	"strings"
)

// Purposes of a [Group].
const (
	ForLocks    = "locks"
	ForOrder    = "order after a broken connection"
	ForWaiting  = "waiting, and locks that are shared"
	ForLatches  = "latches"
	ForViewing  = "looking at locks"
	ForDatabase = "another database than 0"
	ForRedisson = "waking Redisson's clients, and being woken by them"
)

// Group is the rights for one purpose, in addition to the groups before it in a list.
type Group struct {
	For   string
	Rules []string
}

// Keys matches the library's own keys. The keys of locks are their names, which only the user knows.
const Keys = "~quorumlock:*"

// Inboxes matches the channels on which waiters are woken.
const Inboxes = "&quorumlock:inbox:*"

// Locks returns the rights for all operations that do not wait.
func Locks() Group {
	return Group{ForLocks, strings.Fields(Keys + " +ping +info +time +eval +evalsha +getrange +setrange +set +del +exists +pexpire +pttl" +
		" +hget +hset +hmget +hkeys +hdel")}
}

// Order returns the right to kill an old connection, so that no old command runs after a reconnect. Locks work
// without it, but one may be left behind for a TTL after a connection broke.
func Order() Group {
	return Group{ForOrder, strings.Fields("+hello +client|info +client|kill +client|setname")}
}

// Waiting returns the rights to wait for a lock, and to read a shared one.
func Waiting() Group {
	return Group{ForWaiting, strings.Fields(Inboxes + " +zadd +zrange +zrank +zrem +zscore +publish +subscribe")}
}

// Latches returns the rights for latches.
func Latches() Group { return Group{ForLatches, strings.Fields("+zadd +zcard +zrange")} }

// Database returns the right to use another database than 0.
func Database() Group { return Group{ForDatabase, []string{"+select"}} }

// Redisson returns the rights for locks that are shared with Redisson's clients.
func Redisson() Group {
	return Group{ForRedisson, strings.Fields("&redisson_lock__channel:* +psubscribe")}
}

// Viewing returns the rights to look at all locks, and to change nothing. Each key may be of a lock.
func Viewing() Group {
	return Group{ForViewing, strings.Fields("~* +ping +hello +info +time +eval +evalsha +getrange +pttl +hget +hmget +hkeys +hlen +zrange +scan" +
		" +client|info +client|setname")}
}

// SetUser returns the command that creates a user with a password. The user may take the locks whose names match the
// patterns, wait for them, and use the latches of such names.
func SetUser(user, password string, patterns ...string) string {
	return setUser(user, password, patterns, Locks(), Order(), Waiting(), Latches())
}

// SetViewer returns the command that creates a user with a password. The user may look at all locks and latches.
func SetViewer(user, password string) string { return setUser(user, password, nil, Viewing()) }

func setUser(user, password string, patterns []string, groups ...Group) string {
	words := []string{"ACL", "SETUSER", user, "on", ">" + password}
	for _, p := range patterns {
		words = append(words, "~"+p)
	}
	words = append(words, "resetchannels")
	for _, g := range groups {
		for _, rule := range g.Rules {
			if !slices.Contains(words, rule) {
				words = append(words, rule)
			}
		}
	}
	return strings.Join(words, " ")
}
