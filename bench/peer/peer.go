package peer

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Kind says what a peer is measured for.
type Kind string

// The kinds of peers.
const (
	Ours  Kind = "ours"  // this library
	Limit Kind = "limit" // not a lock one could use: what the least costs
	Other Kind = "other" // another library on the same servers
	Apart Kind = "apart" // another kind of system
)

// Peer is one way to lock.
type Peer struct {
	// Name is what flags and results call it.
	Name string
	Kind Kind
	// About is one sentence for readers of the report.
	About string
	// Waits is set if Acquire waits for a lock that somebody else holds.
	Waits bool
	// Renews is set if a lock that was acquired renews itself.
	Renews bool
	// Marked is set if the nodes have to be opened by package admin.
	Marked bool
	// Most is the most nodes that it uses, or 0 if it uses them all.
	Most int
	// Plain are the commands that it sends other than from within scripts, besides those
	// of connections, subscriptions and scripts.
	Plain []string
	// Open makes a client. It must not take longer than ctx allows.
	Open func(ctx context.Context, o Options) (Client, error)
	// Worker is the program that runs the clients of a peer that is not in Go, and of which
	// there is no Open: it speaks with the runner as package worker does. Available tells why
	// there is none here.
	Worker    func() (*exec.Cmd, error)
	Available func() error
}

// Options are what a client is opened with.
type Options struct {
	// Addresses are those of the nodes, as host:port; of a peer that is Apart, of its own
	// server.
	Addresses []string
	// TTL is how long nodes keep a lock that is not renewed.
	TTL time.Duration
	// Contenders is how many callers want each lock; 0 if it is free.
	Contenders int
	// Renewed is called once for each renewal of a lock, where the peer renews, unless it is nil.
	Renewed func()
}

// Client is one client of a peer. It is safe for concurrent use.
type Client interface {
	// Lock is a lock for one caller. It costs nothing yet.
	Lock(name string) Lock
	// Close ends the client. It is called once, when no call of a lock is under way.
	Close(ctx context.Context) error
}

// Lock is one caller's lock. It is not safe for concurrent use.
type Lock interface {
	// Acquire takes the lock. Where the peer waits, it does so until ctx ends.
	Acquire(ctx context.Context) error
	// Release gives it back, and is called after an Acquire without error only.
	Release(ctx context.Context) error
}

// Numbered is a lock that has to know which of all callers it is for.
type Numbered interface {
	// Number is called before the first Acquire, with the number of the caller, from 0.
	Number(caller int)
}

// Sharer is a lock that is not for one holder alone.
type Sharer interface {
	// Claim is what was got by the last Acquire.
	Claim() Claim
}

// Claim is what somebody holds: so much of a whole, of which all who hold some at the same time
// may have no more than each of them says.
type Claim struct {
	// Slot is which of the locks it is that all callers want; 0 if there is one.
	Slot          int
	Weight, Limit int64
}

// Meeter is a lock whose Acquire returns only when all callers have called it.
type Meeter interface {
	// Meets reports whether it is so: it is not for a caller that is alone.
	Meets() bool
}

// Batcher is a client that takes many locks at once, instead of one for each caller.
type Batcher interface {
	// Batch is a lock that stands for all of these names.
	Batch(names []string) Lock
}

// Checker is a lock that knows whether it was lost.
type Checker interface {
	// Valid reports whether the lock is still held.
	Valid() bool
}

// errDenied is why a lock was not taken that somebody else holds on too many nodes.
var errDenied = errors.New("held by another")

// All are all peers, in the order in which reports list them.
func All() []Peer {
	return []Peer{
		redlock, multilock, fair, noHandover,
		floor, floorGroup, pipe,
		redsyncGo, redsyncGoFailFast, redsyncRueidis, redsyncRueidisFailFast,
		redislockOne, redissonRedLock, redissonMultiLock, redissonOne, etcdMutex,
		semaphore, readers, mixed, oneWriter, latch, join, striped,
	}
}

// Find returns the peer of that name.
func Find(name string) (Peer, error) {
	all := All()
	i := slices.IndexFunc(all, func(p Peer) bool { return p.Name == name })
	if i < 0 {
		return Peer{}, fmt.Errorf("there is no peer %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return all[i], nil
}

// Names are the names of all peers.
func Names() []string {
	var names []string
	for _, p := range All() {
		names = append(names, p.Name)
	}
	return names
}
