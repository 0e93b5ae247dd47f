// Package peer gives different distributed locks one interface, so that one harness can measure them all.
package peer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Peer is one implementation of locks.
type Peer struct {
	// Name is the name in flags and results.
	Name string
	// Ours marks a lock of this library: package admin must open the nodes.
	Ours bool
	// Waits is set if Acquire waits while the lock is held.
	Waits bool
	// Plain lists the commands that clients of the peer send outside of scripts. Commands for connections,
	// subscriptions and scripts are not listed.
	Plain []string
	// Open connects a client. It must return when ctx ends.
	Open func(ctx context.Context, o Options) (Client, error)
}

// Options configure a client.
type Options struct {
	// Addresses are the nodes' addresses as host:port.
	Addresses []string
	// TTL is the time after which nodes drop a lock that is not renewed.
	TTL time.Duration
	// Contenders is the number of callers that may want a lock at the same time; 0 if each has a lock of its own.
	Contenders int
	// NodeTimeout is how long an operation of this library waits for one node; 0 for the default.
	NodeTimeout time.Duration
	// Renewed, if not nil, is called once for each renewal of a lock.
	Renewed func()
}

// Client is one client of a peer. It is safe for concurrent use.
type Client interface {
	// Lock returns a lock for the caller with a number, or for [NoCaller]. It sends nothing yet.
	Lock(name string, caller int) Lock
	// Close ends the client. It is called once, when no call of a lock is in flight.
	Close(ctx context.Context) error
}

// Lock is one caller's lock. It is not safe for concurrent use.
type Lock interface {
	// Acquire acquires the lock. A peer that waits goes on until ctx ends.
	Acquire(ctx context.Context) error
	// Release releases the lock. It is called only after a successful Acquire.
	Release(ctx context.Context) error
}

// NoCaller is the number of a caller that is not measured.
const NoCaller = -1

// Trier is a lock that can be asked for without a wait.
type Trier interface {
	// Try acquires the lock unless it is denied.
	Try(ctx context.Context) (denied bool, err error)
}

// Checker is a lock that knows whether it was lost.
type Checker interface {
	// Valid reports whether the lock is still held.
	Valid() bool
}

// errDenied means that another holder has the lock on too many nodes.
var errDenied = errors.New("held by another")

// All returns all peers, in the order of the report.
func All() []Peer {
	return []Peer{
		redlock, multilock, noHandover,
		floor, floorAll, floorGroup, queue,
		redsyncPeer,
		semaphore, readers, mixture,
		full(16), full(128), full(1024),
	}
}

// Find returns the peer of that name.
func Find(name string) (Peer, error) {
	var names []string
	for _, p := range All() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Peer{}, fmt.Errorf("there is no peer %q; there are %s", name, strings.Join(names, ", "))
}
