// Package sim runs the real coordinator on in-memory nodes in virtual time, and breaks everything around it. Nodes
// lose their memory, hang and restart; clients freeze and die; messages are late, lost, duplicated and out of order;
// and no two clocks agree. Messages of nodes to waiters are late too, or lost with the connection. A server does not
// know of a client's end before it is told.
//
// A [Case] is drawn from a seed, with everything that happens in it: each request, each fault, the fate of each
// message. [Run] plays it within a bubble of testing/synctest, where a virtual minute takes milliseconds. A witness
// records in a history which leases are valid, in true time, and package history judges it. A history does
// not show progress, waking and the like, so the simulation checks those itself. A [Verdict] lists the broken promises:
//
//   - exclusion: no two leases of a name are valid at one instant of true time;
//
//   - tokens: each grant of a name has a larger token than all before, and no holder sees its
//     lease valid after a later grant;
//
//   - finality: a lease that has ended is never valid again, and no context outlives a release;
//
//   - nothing is left: at the end, no node has a key of a lock, or one without an expiry that should have one, and no
//     command of an owner runs after its release if the network keeps the order;
//
//   - progress: when the faults stop, newcomers and old processes can acquire the lock within R
//     and two seconds, no endless waiter still waits, unless it spins and its pauses are longer, and
//     a call gives up after its MaxOutage, and not while a quorum answers;
//
//   - waking: a waiter acquires the lock within 1.5 seconds after the last obstacle is gone. If
//     nothing ever goes wrong and all want one lock, within 0.4 seconds: no wake is lost;
//
//   - order: in FIFO order, and if nothing goes wrong, no waiter is passed over;
//
//   - counting: the model of a latch explains the results of its calls;
//
//   - losses: a lease that was forced off, or that another client took after its lock was deleted
//     by hand, ends with its next renewal, or its release reports that; and no other lease does.
//
// Package mutant shows that the simulation finds protocols which lack a rule.
//
// The test of the package removes from a failing case everything that it fails without. The history of the rest is short
// enough to read.
package sim
