package watch

import (
	"context"
	"errors"
	"maps"
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

func (a *asker) countSome(ctx context.Context, names []string, now int64) error {
	queued, err := a.queued(ctx, names)
	if err != nil {
		return err
	}
	known, err := a.known(ctx, queued)
	if err != nil {
		return err
	}
	for _, name := range names {
		l := a.said.Locks[name]
		for i, waiter := range queued[name] {
			deadline, woken := known[name][2*i], known[name][2*i+1] != ""
			if end, err := strconv.ParseInt(deadline, 10, 64); err == nil && end > now && (!woken || !l.heldBy(clientOf(waiter))) {
				l.Waiters++
			}
		}
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

// queued returns the first waiters of each name. A key of another type counts as empty.
func (a *asker) queued(ctx context.Context, names []string) (map[string][]string, error) {
	questions := make(map[string][]string)
	for _, name := range names {
		questions[name] = []string{"ZRANGE", queueKey("queue", name), "0", strconv.Itoa(MostWaiters - 1)}
	}
	return a.lists(ctx, questions)
}

// known returns two texts for each waiter: its deadline, and since when it is expected, or nothing.
func (a *asker) known(ctx context.Context, waiters map[string][]string) (map[string][]string, error) {
	questions := make(map[string][]string)
	for name, of := range waiters {
		question := []string{"HMGET", queueKey("waiting", name)}
		for _, waiter := range of {
			question = append(question, waiter, "+"+waiter)
		}
		questions[name] = question
	}
	known, err := a.lists(ctx, questions)
	for name, of := range waiters {
		if len(known[name]) != 2*len(of) {
			delete(waiters, name)
		}
	}
	return known, err
}

// lists returns the answers to questions about names. A key of another type counts as empty.
func (a *asker) lists(ctx context.Context, questions map[string][]string) (map[string][]string, error) {
	lists := make(map[string][]string)
	if len(questions) == 0 {
		return lists, nil
	}
	names := slices.Collect(maps.Keys(questions))
	all := make([][]string, len(names))
	for i, name := range names {
		all[i] = questions[name]
	}
	for i, answer := range a.ask(ctx, all...) {
		some, err := answer.AsStrSlice()
		if err != nil && !strings.HasPrefix(err.Error(), "WRONGTYPE") {
			return nil, err
		}
		if len(some) > 0 {
			lists[names[i]] = some
		}
	}
	return lists, nil
}

// now returns the node's clock in milliseconds.
func (a *asker) now(ctx context.Context) (int64, error) {
	parts, err := a.ask(ctx, []string{"TIME"})[0].AsIntSlice()
	if err != nil {
		return 0, err
	}
	if len(parts) != 2 {
		return 0, errors.New("the answer to TIME is not a time")
	}
	return parts[0]*1000 + parts[1]/1000, nil
}
