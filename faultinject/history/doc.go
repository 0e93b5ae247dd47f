// Package history records the calls of clients of locks, semaphores and latches with their times. It decides whether
// a correct lock with expiry and fencing tokens, a correct semaphore, or a correct latch explains them.
//
// # Writing
//
// Each client process has a [Recorder]. It appends a line of JSON to its own file for the begin and the end of each
// call. A call to acquire begins with [Recorder.Acquire], AcquireRead or AcquirePermits, and goes on with the [Holding]
// that Granted returns. For each call of a latch, and for changes of a semaphore's size, one method makes the call and
// records it.
//
// A [Log] collects the events of several recorders in memory instead, for clients in one process.
//
// Times come from clock.System. All processes of one machine share this clock, and no program sets it: CLOCK_BOOTTIME
// on Linux, and the time since boot on macOS and Windows. On other systems it counts from the start of the process,
// and only the history of a single process is meaningful. Containers see the clock of their host, unless their time
// namespace has an offset.
//
// A killed process loses no recorded event, and leaves at most a torn last line. Every prefix of a file is a sound
// history: a missing event only makes the history prove less. Do not record nested leases: they share the token of
// the outer lease, which would look like a token that was given twice.
//
// # Checking
//
// [Read] and [ReadDir] make a [History] of the files, and [Check] decides about it, for each name on its own. The
// events prove these facts about a lease:
//
//   - The lease was granted at an instant between call and return of its acquisition.
//   - An act proves that its client saw the lease valid at an instant between call and return.
//     So the lease did not end before the call. How much later it ended is unknown.
//   - A successful release proves the same, because Release returns nil only if the lease had
//     not ended by itself. It also proves that the lease has ended by the time of its return.
//   - A release that failed may have happened. The lease may have ended before the call.
//     By the return it has ended for its client, which can no longer act on it.
//   - A recorded loss, and an act that was refused, prove that the lease has ended by then.
//   - Otherwise its end is unknown, and may never come.
//
// A failed acquisition proves nothing. A lock may refuse for reasons other than a holder: too few nodes answered,
// votes were split, or a node recovers. An acquisition without a return may have been granted, but no client can have
// acted on it. So it proves nothing either, and neither does an act without a return.
//
// The model of a name consists of its holder and the largest token so far. A grant requires that there is no holder,
// and a token larger than all before. An act requires that its lease holds, and so does the end of a lease. Every
// lease has one end, within the bounds that follow from the above. Plain comparisons of leases decide this, and describe
// a violation in words. The tests show that they agree with porcupine, which searches for instants that fit.
//
// A lock with readers has one writer, or any number of readers. The grant of a reader requires that there is no
// writer, and a token not smaller than any before. The grant of a writer requires that there is no holder, and a
// larger token. From the call of a downgrade on, the lease may be a reader's, whether the call succeeds or not. A
// successful downgrade also proves that the lease was valid.
//
// # Semaphores
//
// A permit with a number is checked like a lock: one lease at a time, with growing tokens. Tokens of different
// permits cannot be compared. Besides, the number of a granted permit must be below a size that the semaphore can have had
// during the acquisition. That is the client's configured size until a Resize has succeeded. From the call of a Resize on, it
// is also the new size, until a later Resize succeeds that was called after the first returned. A Resize that failed, or has
// no return, may take effect at any time, or never. So no more permits are held at once than there can have been since the
// first of them was requested.
//
// # Latches
//
// A latch is set or not. A set latch has the set of ids that have counted down. A Set requires that the latch is not
// set, or set to the same number, and then changes nothing. A successful CountDown requires that the latch is set.
// Await and Count require that it is set, and that as many ids have counted down as they report; repetitions do not
// count. Delete forgets everything. A Set, CountDown or Delete that failed, or has no return, may take effect at any
// time from its call on, or never. But a count-down that returned does not take effect after a deletion that was
// called later. An Await or Count that failed proves nothing. But a refusal needs a reason: the latch cannot be "not
// set" after a Set that no Delete undid, nor "deleted" without a Delete, nor set to a number that no Set has.
//
// Comparisons find violations that a few calls show: a latch that is done before enough ids can have counted down, a
// missing confirmed count-down, a count that rises or is no longer done, and two numbers at once. Porcupine finds
// violations that need more calls.
//
// The models do not include sizes or latches that nodes forget, or latches whose TTL has passed. So a history in
// which a majority lost its memory may be found illegal.
//
// A lease of several names is recorded for each of them. It is checked name by name, and a lease of several permits slot by
// slot, as if the grants could be at different instants. Violations that only follow from several of them together are not found.
package history
