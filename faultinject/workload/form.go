package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/faultinject/history"
)

// Form is the form in which a use holds its lock.
type Form string

// The forms.
const (
	// AsLease is a lease that the user acquires and releases.
	AsLease Form = ""
	// InDo is a function that runs while the lock is held.
	InDo Form = "do"
	// InJoin is a joint lease of the lock and another one, and InJoinDo a function under both.
	InJoin   Form = "join"
	InJoinDo Form = "join-do"
	// AsLeader is a term of a candidate in an election.
	AsLeader Form = "leader"
	// InOnce is a function that runs at most once in a window, and AsOnce is such work under a lease that the user acquires.
	InOnce Form = "once-do"
	AsOnce Form = "once"
)

// Joint is the acquisition of several uses together.
type Joint struct {
	uses     []Use
	joined   *quorumlock.Joined
	granted  []func(*quorumlock.JointLease) (token uint64, slots []int)
	attempts [][]Attempt
}

// Join records the begin of an acquisition of several uses together. Acquire or Do comes next. The first use says in which
// way it is made, and how it ends.
func Join(c *quorumlock.Client, r *history.Recorder, worker int, uses ...Use) *Joint {
	j := &Joint{uses: uses}
	var locks []quorumlock.Joinable
	for _, u := range uses {
		lock, of := u.joinable(c)
		locks, j.granted = append(locks, lock), append(j.granted, of)
		j.attempts = append(j.attempts, u.Attempts(r, worker))
	}
	j.joined = quorumlock.Join(locks...)
	return j
}

// joinable returns what Join takes to acquire this use with others. granted returns the token and the slots that this part
// of a joint lease has.
func (u Use) joinable(c *quorumlock.Client) (lock quorumlock.Joinable, granted func(*quorumlock.JointLease) (token uint64, slots []int)) {
	if u.Permits == 0 {
		return u.Lock(c), func(l *quorumlock.JointLease) (uint64, []int) {
			Called("JointLease.Context")
			token, _ := c.RedLock(u.Names[0]).Token(l.Context())
			return token, nil
		}
	}
	s := u.semaphore(c)
	Called("Semaphore.Joinable")
	return s.Joinable(u.Permits), func(l *quorumlock.JointLease) (uint64, []int) {
		Called("JointLease.Context")
		slots, token, _ := s.Slots(l.Context())
		return token, slots
	}
}

// Acquire acquires all of it.
func (j *Joint) Acquire(ctx context.Context) (*quorumlock.JointLease, error) {
	if j.uses[0].Try {
		Called("Joined.TryAcquire")
		return j.joined.TryAcquire(ctx)
	}
	Called("Joined.Acquire")
	return j.joined.Acquire(ctx)
}

// Do runs fn while it has all of it.
func (j *Joint) Do(ctx context.Context, fn func(context.Context) error) error {
	Called("Joined.Do")
	return j.joined.Do(ctx, fn)
}

// Part returns the use with an index, its attempts, and what a joint lease has for it.
func (j *Joint) Part(i int, lease *quorumlock.JointLease) (u Use, attempts []Attempt, token uint64, slots []int) {
	token, slots = j.granted[i](lease)
	return j.uses[i], j.attempts[i], token, slots
}

// Failed records that the acquisition failed.
func (j *Joint) Failed(err error) {
	for _, attempts := range j.attempts {
		Failed(attempts, err)
	}
}

// Leases returns the parts of a joint lease.
func (j *Joint) Leases(lease *quorumlock.JointLease) []*quorumlock.Lease {
	Called("JointLease.Leases")
	return lease.Leases()
}

// Valid returns nil while a joint lease is valid.
func (j *Joint) Valid(lease *quorumlock.JointLease) error {
	Called("JointLease.Err")
	return lease.Err()
}

// End ends a joint lease.
func (j *Joint) End(lease *quorumlock.JointLease) error {
	if j.uses[0].Ending == Waive {
		for _, part := range j.Leases(lease) {
			part.WaiveMinHold()
		}
	}
	Called("JointLease.Release")
	return lease.Release(context.Background())
}

// Stand lets a candidate stand for election, with the name of the use.
func (u Use) Stand(ctx context.Context, c *quorumlock.Client, cfg election.Config, lead func(context.Context, *election.Election, election.Term) error) error {
	e := election.New(c, u.Names[0], cfg)
	Called("Election.Run")
	return e.Run(ctx, func(ctx context.Context, term election.Term) error { return lead(ctx, e, term) })
}

// DoOnce does work under the lock of the use, at most once in a window.
func (u Use) DoOnce(ctx context.Context, c *quorumlock.Client, window time.Duration, fn func(ctx context.Context, token uint64) error) error {
	lock := u.Lock(c)
	options := quorumlock.OnceOptions{Window: window, Lock: u.options()}
	Set(options)
	once := c.Once(u.Names[0], options)
	if u.Form == InOnce {
		Called("Once.Do")
		return once.Do(ctx, func(ctx context.Context) error {
			token, _ := lock.Token(ctx)
			return fn(ctx, token)
		})
	}
	lease, err := u.Acquire(ctx, c)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Release(context.WithoutCancel(ctx)) }()
	Called("Once.Check")
	if err := cmp.Or(once.Check(ctx), lease.Err()); err != nil {
		return err
	}
	if err := fn(lease.Context(), lease.Token()); err != nil { //nolint:contextcheck // the context of the lease is not the one of the call
		return err
	}
	Called("Once.Record")
	return once.Record(context.WithoutCancel(ctx), lease)
}

// Leads reports whether a candidate leads by a term, also by what it tells a probe of its health.
func Leads(e *election.Election, term election.Term) bool {
	Called("Election.Leading")
	Called("Election.Healthy")
	now, leads := e.Leading()
	return leads && now.Token == term.Token && e.Healthy() == nil
}

// Resign ends the term of a candidate.
func Resign(e *election.Election) {
	Called("Election.Resign")
	e.Resign()
}

// Question is a call that acquires nothing.
type Question string

// The questions, and the change of a semaphore's size.
const (
	InspectLock    Question = "inspect the lock"
	InspectPermits Question = "inspect the semaphore"
	Resize         Question = "change the number of permits"
	ListLocks      Question = "list the locks"
	AskReady       Question = "ask whether the nodes are ready"
	Connect        Question = "connect to the nodes"
	AskLeader      Question = "ask for the leader"
	WatchLeader    Question = "watch the leader"
)

// Ask makes the call about the use's lock or semaphore. The answer is an owner, or a number. size is the number of permits
// for a Resize.
func (u Use) Ask(ctx context.Context, c *quorumlock.Client, q Question, size int) (answer string, err error) {
	var n int
	switch q {
	case InspectLock:
		Called("Lock.Inspect")
		status, err := u.Lock(c).Inspect(ctx)
		if status != nil {
			answer = status.Holder()
		}
		return answer, err
	case AskReady:
		Called("Client.Ready")
		return "", c.Ready(ctx)
	case Connect:
		Called("Client.Connect")
		return "", c.Connect(ctx)
	case AskLeader:
		Called("Election.Leader")
		leader, err := election.New(c, u.Names[0], election.Config{}).Leader(ctx)
		return leader.Owner, unlessNone(err)
	case WatchLeader:
		Called("Election.Watch")
		for leader, failed := range election.New(c, u.Names[0], election.Config{}).Watch(ctx) {
			return leader.Owner, unlessNone(failed)
		}
		return "", ctx.Err()
	case ListLocks:
		Called("Client.Locks")
		for l, failed := range c.Locks(ctx, u.Names[0]) {
			if err = failed; len(l.Holders) > 0 && l.Holders[0].Held && l.Slot < 0 && !l.Reads {
				answer = l.Holders[0].Owner
			}
		}
		return answer, err
	case InspectPermits:
		Called("Semaphore.Inspect")
		status, err := u.semaphore(c).Inspect(ctx)
		if status != nil {
			n = status.Available()
		}
		return fmt.Sprint(n), err
	case Resize:
		Called("Semaphore.SetPermits")
		return fmt.Sprint(size), u.semaphore(c).SetPermits(ctx, size)
	}
	return fmt.Sprint(n), err
}

// unlessNone returns the error, unless it says that there is no leader.
func unlessNone(err error) error {
	if errors.Is(err, election.ErrNoLeader) {
		return nil
	}
	return err
}

// ForceRelease takes its lock from all holders.
func (u Use) ForceRelease(ctx context.Context, c *quorumlock.Client) (*quorumlock.Status, error) {
	Called("Lock.ForceRelease")
	return u.Lock(c).ForceRelease(ctx)
}

// ReleaseOwner releases the lock or the permits of an owner, of whichever client.
func (u Use) ReleaseOwner(ctx context.Context, c *quorumlock.Client, owner string) error {
	if u.Permits > 0 {
		Called("Semaphore.ReleaseOwner")
		_, err := u.semaphore(c).ReleaseOwner(ctx, owner)
		return err
	}
	Called("Lock.ReleaseOwner")
	_, err := u.Lock(c).ReleaseOwner(ctx, owner)
	return err
}
