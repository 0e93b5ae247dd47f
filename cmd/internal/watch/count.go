package watch

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// count counts the waiters of the names. A waiter counts until its deadline by the node's clock.
func (a *asker) count(ctx context.Context, names []string) {
	if a.said.Err != nil || len(names) == 0 {
		return
	}
	now, err := a.Time(ctx)
	if err != nil {
		a.said.Uncounted = err
		return
	}
	for few := range slices.Chunk(names, batch) {
		if err := a.countSome(ctx, few, now.UnixMilli()); err != nil {
			a.said.Uncounted = err
			return
		}
	}
}

// countSome reads the first waiters of each name, and two texts for each waiter: its deadline, and since when it is
// expected, or nothing.
func (a *asker) countSome(ctx context.Context, names []string, now int64) error {
	questions := make([][]string, len(names))
	for i, name := range names {
		questions[i] = []string{"ZRANGE", queueKey("queue", wire.WithPrefix(a.prefix, name)), "0", strconv.Itoa(MostWaiters - 1)}
	}
	queues, err := a.lists(ctx, questions)
	if err != nil {
		return err
	}
	for i, waiters := range queues {
		questions[i] = nil
		if len(waiters) > 0 {
			questions[i] = []string{"HMGET", queueKey("waiting", wire.WithPrefix(a.prefix, names[i]))}
		}
		for _, waiter := range waiters {
			questions[i] = append(questions[i], waiter, "+"+waiter)
		}
	}
	known, err := a.lists(ctx, questions)
	if err != nil {
		return err
	}
	for i, name := range names {
		l := a.said.Locks[name]
		for k, waiter := range queues[i] {
			if len(known[i]) != 2*len(queues[i]) {
				break // the queue is gone, or no queue
			}
			deadline, woken := known[i][2*k], known[i][2*k+1] != ""
			if end, err := strconv.ParseInt(deadline, 10, 64); err == nil && end > now && (!woken || !l.heldBy(clientOf(waiter))) {
				l.Waiters++
			}
		}
		a.said.Locks[name] = l
	}
	return nil
}

// lists returns the answers to questions, and nothing for an empty question. A key of another type counts as empty.
func (a *asker) lists(ctx context.Context, questions [][]string) ([][]string, error) {
	asked := slices.DeleteFunc(slices.Clone(questions), func(q []string) bool { return len(q) == 0 })
	if len(asked) == 0 {
		return make([][]string, len(questions)), nil
	}
	answers := a.Ask(ctx, asked...)
	lists := make([][]string, len(questions))
	for i, question := range questions {
		if len(question) == 0 {
			continue
		}
		list, err := answers[0].AsStrSlice()
		if err != nil && !strings.HasPrefix(err.Error(), "WRONGTYPE") {
			return nil, err
		}
		lists[i], answers = list, answers[1:]
	}
	return lists, nil
}

// queueKey returns the key of one of the sorted sets of a name's queue: see node/scripts/lib/queue.lua. Waiters for
// permits are in the queue of their pool.
func queueKey(kind, name string) string {
	if semaphore, _, ok := wire.Permit(name); ok {
		name = wire.PoolName(semaphore)
	}
	return wire.Key(kind, name)
}

// heldBy reports whether a client holds the lock. A woken waiter keeps its place in the queue for a while after it
// acquired, in case it releases at once. Such a client no longer waits.
func (l *Lock) heldBy(client string) bool {
	return slices.ContainsFunc(l.Holders, func(h node.Holder) bool { return clientOf(h.Owner) == client })
}

// clientOf returns the client's part of an owner id or a ticket id.
func clientOf(id string) string {
	client, _, _ := strings.Cut(id, ":")
	return client
}
