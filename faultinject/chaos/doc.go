// Package chaos runs clients in processes of their own on real servers, breaks both by a
// plan, and checks what the clients saw.
//
// Each client takes and frees locks of all kinds, and writes under their tokens to a
// resource that refuses stale ones. What it does and when goes to a file, also if it is
// killed in the middle. After the plan everything is mended; then [Run] sees whether each
// name can be had again within R and two seconds, whether the clients end, whether a key
// is left behind, and package history decides whether a lock explains what was seen.
//
// To watch it:
//
//	go test ./faultinject/chaos -run Chaos -v -args -duration=60s -seed=1 -nodes=docker
package chaos
