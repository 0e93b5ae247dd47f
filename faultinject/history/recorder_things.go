package history

// Resize sets the number of permits of a semaphore by calling resize, and records its times and its result, which it
// returns. After an error, the new number may count or not.
func (r *Recorder) Resize(worker int, semaphore string, size int, resize func() error) error {
	e := r.begin(Resize, worker, []string{semaphore})
	e.Of, e.Size = Semaphore, size
	return r.during(e, resize)
}

// SetLatch sets a latch to n by calling set, and records its times and its result, which it returns. As with all
// changes of a latch, an error means that the change may have happened, or may still happen.
func (r *Recorder) SetLatch(worker int, latch string, n int, set func() error) error {
	e := r.ofLatch(Set, worker, latch)
	e.Count = n
	return r.during(e, set)
}

// CountDown counts down for an id by calling countDown, and records its times and its result, which it returns.
func (r *Recorder) CountDown(worker int, latch, id string, countDown func() error) error {
	e := r.ofLatch(CountDown, worker, latch)
	e.ID = id
	return r.during(e, countDown)
}

// AwaitLatch waits until a latch is done by calling await, and records its times and its result, which it returns. An
// error proves nothing.
func (r *Recorder) AwaitLatch(worker int, latch string, await func() error) error {
	return r.during(r.ofLatch(Await, worker, latch), await)
}

// CountLatch asks how many ids are missing by calling count, and records its times and its result, which it returns.
// An error proves nothing. A call during which the process dies leaves no trace.
func (r *Recorder) CountLatch(worker int, latch string, count func() (int, error)) (int, error) {
	e := r.ofLatch(Count, worker, latch)
	e.Call = r.now()
	left, err := count()
	e.Return, e.Error = r.now(), reason(err, "")
	if err == nil {
		e.Count = left
	}
	r.write(e)
	return left, err
}

// DeleteLatch deletes a latch by calling del, and records its times and its result, which it returns.
func (r *Recorder) DeleteLatch(worker int, latch string, del func() error) error {
	return r.during(r.ofLatch(Delete, worker, latch), del)
}

// ofLatch creates an event about a latch. The caller sets its call time.
func (r *Recorder) ofLatch(kind Kind, worker int, latch string) Event {
	e := r.begin(kind, worker, []string{latch})
	e.Of = Latch
	return e
}
