// Package history keeps what the clients of locks, semaphores and latches did and when, and decides
// whether a lock with expiry and fencing tokens, a semaphore, or a latch explains it.
//
// # Writing
//
// Each client process has a [Recorder], which appends a line of JSON to a file of its own
// for everything that begins or ends:
//
//	r, err := history.Create(dir, "c1")
//	attempt := r.Acquire(worker, "job")
//	lease, err := client.RedLock("job").Acquire(ctx)
//	if err != nil {
//		attempt.Failed(err)
//		return err
//	}
//	held := attempt.Granted(lease.Owner(), lease.Token())
//	err = held.Act(lease.Err)
//	err = held.Release(func() error { return lease.Release(ctx) })
//
// Readers of a lock begin with [Recorder.AcquireRead], and a writer who becomes one records
// [Holding.Downgrade]. For a semaphore it is [Recorder.AcquirePermits], and Granted is told the
// numbers of the permits, Lease.Slots. What sets its size, and the calls of a latch, have a
// method each, which makes the call and records it:
//
//	held := r.AcquirePermits(worker, "exports", 2, 5).Granted(lease.Owner(), lease.Token(), lease.Slots()...)
//	err = r.Resize(worker, "exports", 8, func() error { return exports.SetPermits(ctx, 8) })
//	err = r.CountDown(worker, "ready", id, func() error { return ready.CountDown(ctx, id) })
//
// Times are those of clock.System, which all processes of one machine share and nobody
// sets: CLOCK_BOOTTIME on Linux, and what counts the time since boot on macOS and Windows.
// Elsewhere it counts from the start of the process, and only the history of a single
// process means anything. Containers see the clock of their host, unless they were given a
// time namespace with an offset.
//
// A process that is killed loses nothing that it had recorded, and leaves at most a torn
// last line. Every beginning of a file is a sound history of its own: what is missing
// only proves less. Nested leases must not be recorded: they share the token of the lease
// around them, which would look like a token given twice.
//
// # Checking
//
// [Read] and [ReadDir] make a [History] of the files, and [Check] decides about it, for
// each name on its own. What the events prove about a lease:
//
//   - It was granted at an instant within its acquisition, between call and return.
//   - An act says that its client saw it valid at an instant between call and return, and
//     so it did not end before the call. How much later is not known.
//   - A release that succeeded says the same (Release returns nil only if the lease had
//     not ended by itself), and that the lease has ended by the time of its return.
//   - A release that failed may have happened. The lease may have ended before the call;
//     by the return it has ended for its client, who can act on it no more.
//   - A loss that was seen, and an act that was refused, say that it has ended by then.
//   - Otherwise its end is not known, and may never come.
//
// An acquisition that failed proves nothing. A lock may refuse for reasons that are no
// holder's: too few nodes answered, votes were split, a node recovers. One that has no
// return may have been granted, but nobody can have acted on it, so it proves nothing
// either. The same goes for an act without a return.
//
// The model of a name is its holder and the largest token so far. A grant needs that there
// is no holder, and a token larger than all before; an act needs that its lease holds;
// the end of a lease needs the same. Every lease has one end, within the bounds that
// follow from the above. Porcupine searches for instants that fit. Plain comparisons,
// which say in words what is wrong, are made besides; both have to agree that the history
// is legal.
//
// A lock with readers has a writer, or any number of readers. The grant of a reader needs that there
// is no writer, and a token that is no smaller than any before; that of a writer needs that there is
// nobody, and a larger token. From the call of a downgrade on the lease may be a reader's, whatever
// comes of the call; one that succeeds says besides that the lease was valid.
//
// # Semaphores
//
// A permit with a number is checked as a lock is: one lease at a time, with tokens that grow. Those
// of different permits cannot be compared. Besides,
//
//   - no permit is granted whose number is not below a size that the semaphore can have had during
//     the acquisition: what the client was configured with, until a Resize has succeeded; and
//     from its call on what a Resize set, until another one has succeeded that was called after it
//     had returned. A Resize that failed, or has no return, may take effect at any time, or never.
//   - at no instant are more permits held for certain than there can have been since the first of
//     the leases was asked for. This needs no numbers, so it can be asked of other semaphores too.
//     A lease that was never seen valid is held at some instant of its acquisition only.
//
// # Latches
//
// A latch is set or not, and if it is, it has the set of the ids that have counted down. A Set
// needs that it is not set, or to the same number, and then changes nothing. A CountDown that
// succeeds needs that it is set. Await, and a Count, need that it is set, and as many ids as they
// tell of; repetitions do not count. Delete forgets everything. Set, CountDown and Delete that failed,
// or have no return, may take effect at any time from their call on, or never; but no count-down
// that returned does so behind a deletion that was called later. An Await or a Count that failed
// proves nothing.
//
// Comparisons find what a few calls show: a latch that is done before so many ids can have counted
// down, a confirmed count-down that is missing, a count that rises or is done no more, and two
// numbers at once. What needs more calls is for porcupine to find.
//
// Sizes that nodes forget, and latches that they forget or whose TTL has passed, are not part of these
// models: a history in which a majority lost its memory may be found illegal.
//
// A lease of several names is checked for each of them, as though it could be granted at
// another instant for each. What only follows from several names together is not found.
package history
