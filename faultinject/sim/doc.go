// Package sim runs the real coordinator on in-memory nodes in virtual time, and breaks
// everything around it: nodes lose their memory, hang and restart, clients freeze and die,
// messages are late, lost, doubled and out of order, and no two clocks agree. What nodes send to
// waiters is late too, or lost with the connection, and a server does not know of a client's end
// before it is told.
//
// A [Case] is drawn from a seed, and so is all that happens in it: who asks for what lock
// when, each fault, the fate of each message. [Run] plays it within a bubble of
// testing/synctest, where a virtual minute takes milliseconds, and a [Verdict] says which
// promise was broken:
//
//   - exclusion: no two leases of a name are valid at one instant of true time;
//   - tokens: each grant of a name has a larger token than all before, and no holder is
//     told that its lease is valid once a later one was granted;
//   - finality: no lease that was over is valid again, and no context goes on behind a release;
//   - nothing is left: when all is quiet, no node has a key of a lock, and nothing of an
//     owner runs behind its release where the network keeps the order;
//   - progress: when the faults stop, the lock can be had within R and two seconds, by
//     newcomers and by processes that have been through it all, and nobody still waits who has
//     all the time in the world;
//   - waking: who waits has the lock 1.5 seconds after the last that stood in its way, and where
//     nothing ever goes wrong and all want one lock, after 0.4 seconds: no wake is lost;
//   - order: where waiters take turns, and nothing goes wrong, nobody is passed over;
//   - counting: what calls of a latch tell can be explained;
//   - losses: a lease that was released by force, or that another took as its lock was deleted by
//     hand, ends with its next renewal, or its release says so; and no other lease is told that.
//
// Package mutant shows that it finds protocols which lack a rule.
//
// [Shrink] takes from a case that fails whatever it fails without, and the history of
// what is left is short enough to read.
package sim
