// Package mutant lists broken variants of the protocol, and its test shows that the
// simulation of package sim finds each of them. That is how we know that the simulation
// sees: a run without a violation says something only if a protocol that lacks a rule
// does not get through.
//
// A [Mutant] is a few edits of the source. They are made in copies, and built with the flag
// -overlay of the go command, so the code that users run has no hooks for them. [All] lists
// the mutants. To run them, from the directory faultinject:
//
//	go test ./mutant -run TestMutants -v -args -budget=10000
//	go test ./mutant -run TestMutants -v -args -mutant='^no-drift$'
//
// # What is not listed
//
// Not every wrong line is a mutant. Left out are changes that cannot break a promise, because
// another rule holds as well or because they only cost time.
//
// So are left out: that a round which is undone does not wake its own waiter, as that would try
// again, and then wake the next, nor take it out of the queue, as it comes back with its ticket; that no lease is handed to a waiter whose own attempt is under
// way, as none that could be handed over comes about meanwhile; and that renewals repeat the
// end of a block of tokens, as a node that has forgotten the block gives nothing until clocks are
// past it.
package mutant
