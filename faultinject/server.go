package faultinject

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Server is a real Redis server that can be broken: a process of package process, or a container of package
// container. It starts empty. Its append-only file survives its end, so it comes back with its data unless the file
// is wiped.
//
// Methods may be called concurrently; methods that change the server run one after another. Each is bounded by its
// context, names the server and the action in its errors, and returns only when its effect is complete. Faults may
// overlap: a server that is paused or cut off can be killed.
type Server interface {
	// Name is n1, n2 and so on, as a [Plan] calls the node.
	Name() string

	// Addr is where clients reach the server, as host:port. It never changes.
	Addr() string

	// Command sends one command past any cut of the network, and returns the reply as text: strings as they are,
	// integers in decimal, nil as "(nil)", an array with an element per line. An error reply becomes the error. If
	// ctx has no deadline, Command waits for the answer for some seconds.
	Command(ctx context.Context, args ...string) (string, error)

	// Start starts a stopped server with the data on its disk. It does nothing if the server is running.
	Start(ctx context.Context) error

	// Kill ends the server at once (SIGKILL), paused or not. Commands that a paused server had received but not read
	// are not run. It does nothing if the server is down.
	Kill(ctx context.Context) error

	// Stop ends the server in an orderly way (SIGTERM): it saves its data. A paused server
	// is resumed first. It does nothing if the server is down.
	Stop(ctx context.Context) error

	// Wipe removes the data on a server's disk. The server must be down.
	Wipe(ctx context.Context) error

	// Pause stops the server without ending it: connections stay open without answers, and commands that arrive
	// meanwhile run after Resume. The server must be running; pausing a paused one does nothing.
	Pause(ctx context.Context) error

	// Resume ends a pause. It does nothing if the server is not paused.
	Resume(ctx context.Context) error

	// CutOff makes the server unreachable at Addr, silently: connections hang, and new ones get no answer. It
	// outlasts Kill and Start, and does nothing if the server is cut off already.
	CutOff(ctx context.Context) error

	// Heal ends CutOff. Data that was sent meanwhile may arrive now, as on a network that retransmits. It does
	// nothing if the server is not cut off.
	Heal(ctx context.Context) error

	// StepClock sets the offset of the server's wall clock, from now on and over restarts, with the normal rate; 0 is
	// the true time. A server that is down or paused has the new clock when it continues. Where clocks cannot be
	// stepped, the error is [errors.ErrUnsupported] with the reason.
	StepClock(ctx context.Context, offset time.Duration) error

	// SetMaxMemory limits the memory for data, in bytes, from now on and over restarts: beyond it, writes fail and
	// nothing is evicted. 0 is no limit.
	SetMaxMemory(ctx context.Context, limit int64) error

	// Close ends the server and removes it, with everything that it left behind. It may be called more than once;
	// other methods fail after it.
	Close() error
}

// Loser is a [Server] whose latest writes can be taken from its disk.
type Loser interface {
	// Lose waits for a while, kills the server, and removes the writes of that time from its disk.
	Lose(ctx context.Context, while time.Duration) error
}

// Shard is a [Server] that is one slot of a Redis Cluster. A fault of the node is a fault of the
// server that owns the slot. That server's data is lost with its process, unless a replica has it.
type Shard interface {
	// Tag is the hash tag of the slot.
	Tag() string

	// Routes maps the addresses that the servers of the cluster have among themselves, and tell clients, to those at
	// which clients reach them.
	Routes() map[string]string

	// Failover makes a replica take over from the owner.
	Failover(ctx context.Context) error

	// Move moves the slot to another master, with its keys.
	Move(ctx context.Context) error

	// Isolate cuts the owner off from the other servers, not from clients. Rejoin ends that.
	Isolate(ctx context.Context) error
	Rejoin(ctx context.Context) error
}

// on calls a method that only some servers have: those of a [Shard], or of a [Loser].
func on[T any](s Server, step Step, do func(T) error) error {
	some, ok := s.(T)
	if !ok {
		return fmt.Errorf("faultinject: %s: %q: %w", s.Name(), step, errors.ErrUnsupported)
	}
	return do(some)
}

// Begin injects the step's fault into a server: a fault of a node, or [Part] of all clients at once. Other faults are
// an error.
func Begin(ctx context.Context, s Server, step Step) error {
	switch step.Fault {
	case Stop:
		return s.Stop(ctx)
	case Kill:
		return s.Kill(ctx)
	case Wipe:
		return errors.Join(s.Kill(ctx), s.Wipe(ctx))
	case Lose:
		return on(s, step, func(l Loser) error { return l.Lose(ctx, step.Amount) })
	case Flush:
		_, err := s.Command(ctx, "FLUSHALL")
		return err
	case Pause:
		return s.Pause(ctx)
	case Clock:
		return s.StepClock(ctx, step.Amount)
	case Memory:
		return s.SetMaxMemory(ctx, 1)
	case Failover:
		return on(s, step, func(shard Shard) error { return shard.Failover(ctx) })
	case Move:
		return on(s, step, func(shard Shard) error { return shard.Move(ctx) })
	case Isolate:
		return on(s, step, func(shard Shard) error { return shard.Isolate(ctx) })
	case Part:
		if step.Client == All {
			return s.CutOff(ctx)
		}
	}
	return notOfServer(s, step)
}

// End ends a step that [Begin] began. It is correct even if the server has had other faults since.
func End(ctx context.Context, s Server, step Step) error {
	switch step.Fault {
	case Stop, Kill, Wipe, Lose:
		return s.Start(ctx)
	case Flush, Failover, Move:
		return nil
	case Pause:
		return s.Resume(ctx)
	case Clock:
		return s.StepClock(ctx, 0)
	case Memory:
		return s.SetMaxMemory(ctx, 0)
	case Isolate:
		return on(s, step, func(shard Shard) error { return shard.Rejoin(ctx) })
	case Part:
		if step.Client == All {
			return s.Heal(ctx)
		}
	}
	return notOfServer(s, step)
}

func notOfServer(s Server, step Step) error {
	return fmt.Errorf("faultinject: %s: %q is not about a server alone", s.Name(), step)
}

// Nodes is a [Subject] that consists of servers only, for tests of a service in the test's own process. Its plans
// concern nodes, and ways that are cut for all clients at once. A [Nemesis] without clients draws such plans.
type Nodes []Server

// Begin implements [Subject].
func (n Nodes) Begin(ctx context.Context, s Step) error { return n.befall(ctx, s, Begin) }

// End implements [Subject].
func (n Nodes) End(ctx context.Context, s Step) error { return n.befall(ctx, s, End) }

func (n Nodes) befall(ctx context.Context, s Step, do func(context.Context, Server, Step) error) error {
	if s.Node < 0 || s.Node >= len(n) {
		return fmt.Errorf("there is no such node among %d", len(n))
	}
	return do(ctx, n[s.Node], s)
}

// Group is servers that were started together.
type Group struct{ servers []Server }

// StartGroup starts n servers in parallel, named n1 to n<n>. It returns once all have started, or have all been
// closed again because one failed.
func StartGroup(n int, start func(name string) (Server, error)) (*Group, error) {
	servers, errs := make([]Server, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { servers[i], errs[i] = start("n" + strconv.Itoa(i+1)) })
	}
	wg.Wait()
	g := new(Group)
	for i, s := range servers {
		if errs[i] == nil {
			g.servers = append(g.servers, s)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Servers returns the servers in the order of their names.
func (g *Group) Servers() []Server { return slices.Clone(g.servers) }

// Close closes all servers. It may be called more than once.
func (g *Group) Close() error {
	errs := make([]error, len(g.servers))
	var wg sync.WaitGroup
	for i, s := range g.servers {
		wg.Go(func() { errs[i] = s.Close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
