// Package chaos runs clients in processes of their own on real servers, breaks both by a
// plan, and checks what the clients saw.
//
// Clients use things of the kinds that [Config] lists, all at the same time: locks, semaphores,
// locks of readers and writers, latches, and locks that are joined. They show their tokens to a
// resource that refuses stale ones, and that knows nothing of the library. What a client does and
// when goes to a file, also if it is killed in the middle. After the plan everything is mended; then
// [Run] sees whether each thing can be had again within R and two seconds, whether a key is left of
// what the workers had while their clients still live, and whether the clients end; and package
// history decides whether what was seen can be explained.
//
// Latches are not locks: no node keeps them for longer than its memory lasts. Each is used for a
// TTL, so that most are not forgotten by a majority. Those that may have been must not be done too
// early, and are not held to the rest.
//
// To watch it:
//
//	go test ./faultinject/chaos -run Chaos -v -args -duration=60s -seed=1 -nodes=docker
//	go test ./faultinject/chaos -run Chaos -v -args -duration=60s -kind=semaphore,join
package chaos
