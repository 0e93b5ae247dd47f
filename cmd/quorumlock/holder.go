package main

import (
	"context"
	"errors"
	"os"
	"sync/atomic"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
)

type holder struct {
	*app
	flags   runFlags
	client  *quorumlock.Client
	locks   *quorumlock.Joined
	rounds  *rounds
	signals chan os.Signal
	// explained is set when the user has been told the problem of the nodes.
	explained bool
}

// lease is the lease of a command, of any kind of lock. One client and one set of options make one step, so a joint
// lease of several keys has one part too.
type lease struct {
	*quorumlock.Lease
	joint *quorumlock.JointLease
}

func (l *lease) Release(ctx context.Context) error { return l.joint.Release(ctx) }

const (
	unconfirmed = "too few nodes confirmed the release, so the lock stays taken until its TTL is over, or --min-hold if that is longer"
	lostBefore  = "another may have had the lock while the command ran"
)

// release releases the lock. The command has ended by now, so a missing confirmation is only worth a warning.
func (h *holder) release(ctx context.Context, lease *lease) {
	before := lease.Err()
	err := lease.Release(context.WithoutCancel(ctx))
	switch {
	case before == nil && errors.Is(err, quorumlock.ErrLost):
		h.say("warning: "+lostBefore+": %s", text.Plain(err))
	case errors.Is(err, quorumlock.ErrNoQuorum) && h.explained:
		h.say("warning: " + unconfirmed)
	case errors.Is(err, quorumlock.ErrNoQuorum):
		h.say("warning: "+unconfirmed+": %s", text.Reason(err))
	case err != nil:
		h.logger().Info("release", "err", text.Plain(err))
	}
}

// rounds records the results of the last rounds of acquisition and renewal, for messages to the user.
type rounds struct {
	// failed has the last failed attempt, for the goroutine that waits.
	failed chan quorumlock.AttemptFailedEvent
	// renewal is why the last renewal failed, or nil if it succeeded.
	renewal atomic.Pointer[error]
}

func (r *rounds) hooks() quorumlock.Hooks {
	return quorumlock.Hooks{
		AttemptFailed: func(e quorumlock.AttemptFailedEvent) {
			select {
			case <-r.failed: // the last one was not read in time
			default:
			}
			r.failed <- e // hooks are called one after another, so there is room
		},
		Renewed:       func(quorumlock.RenewalEvent) { r.renewal.Store(nil) },
		RenewalFailed: func(e quorumlock.RenewalEvent) { r.renewal.Store(&e.Err) },
	}
}
