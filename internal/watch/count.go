package watch

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// count counts the waiters of the names. A waiter counts until its deadline by the node's clock.
func (a *asker) count(ctx context.Context, names []string) {
	if a.said.Err != nil || len(names) == 0 {
		return
	}
	now, err := a.now(ctx)
	if err != nil {
		a.said.Uncounted = err
		return
	}
	for few := range slices.Chunk(names, batch) {
		if err := a.countSome(ctx, few, now); err != nil {
			a.said.Uncounted = err
			return
		}
	}
}

func (a *asker) countSome(ctx context.Context, names []string, now string) error {
	waiting, err := a.members(ctx, names, "waiting", now, "+inf", "BYSCORE")
	if err != nil {
		return err
	}
	queued := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return len(waiting[name]) == 0 })
	woken, err := a.members(ctx, queued, "woken", "-inf", "+inf", "BYSCORE")
	if err != nil {
		return err
	}
	for _, name := range queued {
		l := a.said.Locks[name]
		l.Waiters = len(slices.DeleteFunc(waiting[name], func(waiter string) bool {
			return slices.Contains(woken[name], waiter) && l.heldBy(clientOf(waiter))
		}))
		a.said.Locks[name] = l
	}
	return nil
}

// heldBy reports whether a client holds the lock. A woken waiter keeps its place in the queue for a while after it
// acquired, in case it releases at once. Such a client no longer waits.
func (l *Lock) heldBy(client string) bool {
	for _, h := range l.Holders {
		if clientOf(h.Owner) == client {
			return true
		}
	}
	return false
}

// clientOf returns the client's part of an owner id or a ticket id.
func clientOf(id string) string {
	client, _, _ := strings.Cut(id, ":")
	return client
}

// members returns the members of one of the sorted sets of each name's queue. A key of another type counts as empty.
func (a *asker) members(ctx context.Context, names []string, kind string, which ...string) (map[string][]string, error) {
	questions := make([][]string, len(names))
	for i, name := range names {
		questions[i] = append(append([]string{"ZRANGE", queueKey(kind, name)}, which...), "LIMIT", "0", strconv.Itoa(MostWaiters))
	}
	members := make(map[string][]string)
	if len(names) == 0 {
		return members, nil
	}
	for i, answer := range a.ask(ctx, questions...) {
		some, err := answer.AsStrSlice()
		if err != nil && !strings.HasPrefix(err.Error(), "WRONGTYPE") {
			return nil, err
		}
		if len(some) > 0 {
			members[names[i]] = some
		}
	}
	return members, nil
}

// now returns the node's clock in milliseconds.
func (a *asker) now(ctx context.Context) (string, error) {
	parts, err := a.ask(ctx, []string{"TIME"})[0].AsIntSlice()
	if err != nil {
		return "", err
	}
	if len(parts) != 2 {
		return "", errors.New("the answer to TIME is not a time")
	}
	return strconv.FormatInt(parts[0]*1000+parts[1]/1000, 10), nil
}
