package quorumlock

import "sync"

// reporter runs hooks and writes log lines, one after another in the order of events,
// in a goroutine of its own that exists while there is something to tell. Whatever a
// hook does, and however long, no lease and no node waits for it.
type reporter struct {
	mu    sync.Mutex
	queue []func()
	busy  bool
	done  sync.WaitGroup
}

// tell queues something to be told.
func (r *reporter) tell(report func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, report)
	if !r.busy {
		r.busy = true
		r.done.Go(r.run)
	}
}

func (r *reporter) run() {
	for report := r.next(); report != nil; report = r.next() {
		report()
	}
}

func (r *reporter) next() func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		r.queue, r.busy = nil, false
		return nil
	}
	report := r.queue[0]
	r.queue = r.queue[1:]
	return report
}

// wait returns when all has been told.
func (r *reporter) wait() { r.done.Wait() }

// fire tells a hook of an event, if there is such a hook.
func fire[E any](r *reporter, hook func(E), event E) {
	if hook != nil {
		r.tell(func() { hook(event) })
	}
}
