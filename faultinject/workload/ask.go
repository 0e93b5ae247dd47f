package workload

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock"
)

// Question is a call that acquires nothing.
type Question string

// The questions, and the change of a semaphore's size.
const (
	InspectLock    Question = "inspect the lock"
	InspectPermits Question = "inspect the semaphore"
	CountPermits   Question = "count the permits"
	CountFree      Question = "count the free permits"
	Resize         Question = "change the number of permits"
	ListLocks      Question = "list the locks"
	AskReady       Question = "ask whether the nodes are ready"
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
	case ListLocks:
		Called("Client.Locks")
		for l, failed := range c.Locks(ctx, u.Names[0]) {
			if err = failed; len(l.Holders) > 0 && l.Holders[0].Held && l.Kind == quorumlock.KindLock {
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
	case CountPermits:
		Called("Semaphore.Permits")
		n, err = u.semaphore(c).Permits(ctx)
	case CountFree:
		Called("Semaphore.Available")
		n, err = u.semaphore(c).Available(ctx)
	case Resize:
		Called("Semaphore.SetPermits")
		return fmt.Sprint(size), u.semaphore(c).SetPermits(ctx, size)
	}
	return fmt.Sprint(n), err
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
