package history

// Resize sets how many permits a semaphore has by calling resize, and records when, and what it
// says. It returns the same. An error must mean that the number may count or not.
func (r *Recorder) Resize(worker int, semaphore string, size int, resize func() error) error {
	e := r.begin(Resize, worker, []string{semaphore})
	e.Of, e.Size = Semaphore, size
	return r.during(e, resize)
}

// SetLatch sets a latch to n by calling set, and records when, and what it says. It returns the
// same. As for all that changes a latch, an error must mean that it may have been done, or will
// be.
func (r *Recorder) SetLatch(worker int, latch string, n int, set func() error) error {
	e := r.ofLatch(Set, worker, latch)
	e.Count = n
	return r.during(e, set)
}

// CountDown counts down for an id by calling countDown, and records when, and what it says. It
// returns the same.
func (r *Recorder) CountDown(worker int, latch, id string, countDown func() error) error {
	e := r.ofLatch(CountDown, worker, latch)
	e.ID = id
	return r.during(e, countDown)
}

// AwaitLatch waits until a latch is done by calling await, and records when, and what it says. It
// returns the same. An error proves nothing.
func (r *Recorder) AwaitLatch(worker int, latch string, await func() error) error {
	return r.during(r.ofLatch(Await, worker, latch), await)
}

// CountLatch asks how many have still to count down by calling count, and records when, and what
// it says. It returns the same. An error proves nothing, and one that the process does not survive
// leaves no trace.
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

// DeleteLatch deletes a latch by calling del, and records when, and what it says. It returns the
// same.
func (r *Recorder) DeleteLatch(worker int, latch string, del func() error) error {
	return r.during(r.ofLatch(Delete, worker, latch), del)
}

// ofLatch is an event about a latch. Its call is yet to be set.
func (r *Recorder) ofLatch(kind Kind, worker int, latch string) Event {
	e := r.begin(kind, worker, []string{latch})
	e.Of = Latch
	return e
}
