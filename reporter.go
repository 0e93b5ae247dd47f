package quorumlock

import "sync"

// reporter runs hooks and writes log lines, one after another in the order of events. It has a
// goroutine of its own while there is something to report. However long a hook runs, no lease and
// no node waits for it.
type reporter struct {
	mu    sync.Mutex
	queue []func()
	// running is closed when the goroutine ends, and is nil while there is none. A WaitGroup does
	// not fit: a report may be queued while a caller waits.
	running chan struct{}
}

// enqueue queues a report.
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

// wait returns when the reports that were queued before the call have run.
func (r *reporter) wait() {
	r.mu.Lock()
	running := r.running
	r.mu.Unlock()
	if running != nil {
		<-running
	}
}

// report queues the call of a hook, unless the hook is nil.
func report[E any](r *reporter, hook func(E), event E) {
	if hook != nil {
		r.enqueue(func() { hook(event) })
	}
}
