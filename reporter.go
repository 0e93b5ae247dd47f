package quorumlock

import "sync"

// reporter runs hooks and writes log lines, one after another in the order of events,
// in a goroutine of its own that exists while there is something to tell. Whatever a
// hook does, and however long, no lease and no node waits for it.
type reporter struct {
	mu    sync.Mutex
	queue []func()
	// running is closed when the goroutine ends; nil while there is none. (A WaitGroup
	// would not do: something may be told while somebody waits.)
	running chan struct{}
}

// enqueue queues something to be told.
func (r *reporter) enqueue(report func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, report)
	if r.running == nil {
		r.running = make(chan struct{})
		go r.run()
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
		close(r.running)
		r.queue, r.running = nil, nil
		return nil
	}
	report := r.queue[0]
	r.queue = r.queue[1:]
	return report
}

// wait returns when all has been told that was to be told when it was called.
func (r *reporter) wait() {
	r.mu.Lock()
	running := r.running
	r.mu.Unlock()
	if running != nil {
		<-running
	}
}

// report tells a hook of an event, if there is such a hook.
func report[E any](r *reporter, hook func(E), event E) {
	if hook != nil {
		r.enqueue(func() { hook(event) })
	}
}
