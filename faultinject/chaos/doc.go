// Package chaos runs client processes on real servers, injects faults in both by a plan, and checks the clients'
// histories.
//
// Clients use objects of the kinds that [Config] lists, all at the same time: locks, semaphores, locks of readers and
// writers, latches, and joined locks; with Config.Every, by each exported operation and option. They show their tokens to a
// resource that refuses stale ones, and that does not use the library. Config.Moves changes the lists of nodes meanwhile. Each client writes its calls and their times to a file, which survives a kill. After the plan all
// faults are repaired. Then [Run] checks that each object can be acquired again within R and two seconds. It checks
// that the workers left no key while their clients still live, except those that nodes must keep for a time, and that the
// clients end. Package history checks the
// recorded calls.
//
// Latches are not locks: nodes remember them only as long as their memory lasts. Each latch is used for one TTL, so a
// majority rarely forgets one. A latch that may be forgotten must not be done too early; the other promises do not
// apply to it.
//
// To run it:
//
//	go test ./faultinject/chaos -run Chaos -v -args -duration=60s -seed=1 -nodes=docker
//	go test ./faultinject/chaos -run Chaos -v -args -duration=60s -kind=semaphore,join
package chaos
