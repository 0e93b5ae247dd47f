// Package container runs Redis servers as Docker containers that can be broken, on a network
// of their own: a [faultinject.Server] each.
//
// It needs a Docker engine on this machine, Docker Desktop included, at DOCKER_HOST or the
// usual place; [Available] tells. It needs no registry: without one, an image is made from
// the redis-server that is installed, see [WithImage].
//
// Clients reach a container through a [faultinject.Proxy] before its published port. That is
// where a server is cut off, and not at the Docker network: when a container is disconnected
// from that, connections to its published port end and new ones are refused, and on Linux new
// ones to its own address fail within a second as unreachable. Clients are told, then. The
// proxy keeps silent.
//
// A group that is not closed, because its program was killed, ends with its expiry (see
// [WithExpiry]); what is left of it then is removed by the next [Start]. All that a group
// makes bears the label quorumlock.faultinject.
package container
