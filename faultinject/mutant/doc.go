// Package mutant lists broken variants of the protocol. Its test shows that the simulation of package sim finds each
// of them. Only then does a run without a violation mean something: a protocol that lacks a rule must not pass.
//
// A mutant is a few edits of the source. The files in rules list the mutants by subject, with their edits as diffs.
// The edits are made in copies, and built with the flag -overlay of the go command. So the released code has no hooks
// for them. To run them, from the directory faultinject:
//
//	go test ./mutant -run TestMutants -v -args -budget=10000
//	go test ./mutant -run TestMutants -v -args -mutant='^no-drift$'
//
// # Omitted changes
//
// Not every wrong line is a mutant. The list omits changes that cannot break a promise, because another rule holds as
// well or because they only cost time.
//
// Examples: the undo of an attempt does not wake its own waiter, which would only try again and then wake the next.
// Nor does the undo take that waiter out of the queue, because it comes back with its ticket. No lease is handed to a
// waiter whose own attempt is in flight, because no such lease exists meanwhile. Renewals repeat the end of a block
// of tokens, because a node that has forgotten the block gives nothing until clocks are past it.
package mutant
