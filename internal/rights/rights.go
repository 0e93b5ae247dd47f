// Package rights says what a Redis user has to be permitted, as rules of an ACL: the one place
// for the documentation, for what checks servers, and for the tests that it is enough and not
// too much.
package rights

import "strings"

// What the rules of a [Group] are needed for.
const (
	ForLocks    = "locks"
	ForOrder    = "order after a broken connection"
	ForWaiting  = "waiting, and locks that are shared"
	ForLatches  = "latches"
	ForRedisson = "waking Redisson's clients, and being woken by them"
)

// Group is what is needed for one purpose, besides what stands before it in a list.
type Group struct {
	For   string
	Rules []string
}

// Keys are the library's own keys. Those of locks are their names, which only the user knows.
const Keys = "~quorumlock:*"

// Locks are for all that does not wait.
func Locks() Group {
	return Group{ForLocks, strings.Fields(Keys + " +ping +info +time +eval +evalsha +get +set +del +exists +pexpire +pttl" +
		" +hget +hset +hmget +hkeys +hdel")}
}

// Order makes sure that nothing old runs behind what is sent after a reconnect. Locks work
// without it; one may be left behind for a TTL after a connection broke.
func Order() Group {
	return Group{ForOrder, strings.Fields("+hello +client|info +client|kill +client|setname")}
}

// Waiting is for those who wait for a lock, or read one that is shared.
func Waiting() Group {
	return Group{ForWaiting, strings.Fields("&quorumlock:inbox:* +zadd +zrange +zrank +zrem +zscore +publish +subscribe")}
}

// Latches are for latches.
func Latches() Group { return Group{ForLatches, strings.Fields("+zadd +zcard +zrange")} }

// Redisson is for locks that are shared with Redisson's clients.
func Redisson() Group {
	return Group{ForRedisson, strings.Fields("&redisson_lock__channel:* +unsubscribe")}
}

// SetUser is the command that makes a user with a password who may take the locks whose names
// match the patterns, and wait for them.
func SetUser(user, password string, patterns ...string) string {
	words := []string{"ACL", "SETUSER", user, "on", ">" + password}
	for _, p := range patterns {
		words = append(words, "~"+p)
	}
	words = append(words, "resetchannels")
	for _, g := range []Group{Locks(), Order(), Waiting()} {
		words = append(words, g.Rules...)
	}
	return strings.Join(words, " ")
}
