// Package container runs Redis servers as Docker containers that can be broken, on their own network: each is a
// [faultinject.Server].
//
// It needs a Docker engine on this machine, Docker Desktop included, at DOCKER_HOST or the
// usual place; [Available] tells. It needs no registry: without one, an image is made from
// the redis-server that is installed, see [WithImage].
//
// Clients reach a container through a [faultinject.Proxy] in front of its published port. The proxy cuts servers off,
// not the Docker network. When a container is disconnected from its network, its connections end and new ones are
// refused; on Linux, new ones to its own address fail within a second as unreachable. So clients would notice. The
// proxy stays silent.
//
// A group that is not closed, because its program was killed, ends with its expiry (see [WithExpiry]). The next
// [Start] removes its remains. Everything that a group creates has the label quorumlock.faultinject.
package container
