package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/faultinject/container"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// Source says where servers come from.
type Source struct {
	// Addresses are existing servers. They are emptied before each cell.
	Addresses []string
	// Containers runs servers as Docker containers instead of processes.
	Containers bool
}

// Breakable reports whether servers can be paused and killed.
func (s Source) Breakable() bool { return len(s.Addresses) == 0 }

// servers starts n servers, or uses n of the given ones. closeAll ends them.
func (s Source) servers(ctx context.Context, n int) (servers []Server, closeAll func() error, err error) {
	switch {
	case len(s.Addresses) > 0:
		return s.remotes(ctx, n)
	case s.Containers:
		return containers(ctx, n)
	default:
		return processes(ctx, n)
	}
}

func processes(ctx context.Context, n int) (servers []Server, closeAll func() error, err error) {
	servers = make([]Server, n)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			server, err := redisproc.TryLaunch(ctx)
			if err == nil {
				servers[i] = process{server: server}
			}
			errs[i] = err
		})
	}
	all.Wait()
	closeAll = func() error {
		var errs []error
		for _, s := range servers {
			if s != nil {
				errs = append(errs, s.Close())
			}
		}
		return errors.Join(errs...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start redis-server: %w", err), closeAll())
	}
	return servers, closeAll, nil
}

func containers(ctx context.Context, n int) (servers []Server, closeAll func() error, err error) {
	group, err := container.Start(ctx, n, container.WithTrueClock())
	if err != nil {
		return nil, nil, err
	}
	for _, s := range group.Servers() {
		servers = append(servers, s)
	}
	return servers, group.Close, nil
}

func (s Source) remotes(ctx context.Context, n int) (servers []Server, closeAll func() error, err error) {
	if n > len(s.Addresses) {
		return nil, nil, fmt.Errorf("%d nodes are needed, but %d were given", n, len(s.Addresses))
	}
	for _, address := range s.Addresses[:n] {
		r := remote{address: address}
		if _, err := r.Command(ctx, "FLUSHALL"); err != nil {
			return nil, nil, fmt.Errorf("node %s: empty it: %w", address, err)
		}
		servers = append(servers, r)
	}
	return servers, func() error { return nil }, nil
}

// Check refuses servers that hold keys, because they are emptied later, and containers if there is no Docker.
func (s Source) Check(ctx context.Context) error {
	if s.Containers {
		return container.Available(ctx)
	}
	for _, address := range s.Addresses {
		text, err := remote{address: address}.Command(ctx, "INFO", "keyspace")
		if err != nil {
			return fmt.Errorf("node %s: %w", address, err)
		}
		if strings.Contains(text, "keys=") {
			return fmt.Errorf("node %s holds keys: it would be emptied, so give servers that are empty", address)
		}
	}
	return nil
}

// Server is one server. A [faultinject.Server] is one, too.
type Server interface {
	// Addr is the address for clients, as host:port.
	Addr() string
	// Command sends it one command, and returns the reply as text.
	Command(ctx context.Context, args ...string) (string, error)
	// Pause stops it without ending it, Resume ends that.
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
	// Kill ends it at once. Start starts it again, without its memory.
	Kill(ctx context.Context) error
	Start(ctx context.Context) error
	// Close ends it for good.
	Close() error
}

// process is a redis-server of our own.
type process struct{ server *redisproc.Server }

func (p process) Addr() string { return p.server.Addr() }

func (p process) Command(ctx context.Context, args ...string) (string, error) {
	return p.server.Do(ctx, args...)
}

func (p process) Pause(context.Context) error  { return p.server.TryPause() }
func (p process) Resume(context.Context) error { return p.server.TryResume() }

func (p process) Kill(context.Context) error {
	p.server.Kill()
	return nil
}

func (p process) Start(ctx context.Context) error { return p.server.TryStart(ctx) }
func (p process) Close() error                    { return p.server.TryClose() }

// remote is a server that this program did not start, and does not break.
type remote struct{ address string }

const remoteTimeout = 10 * time.Second

func (r remote) Addr() string { return r.address }

func (r remote) Command(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	return redisproc.Exchange(ctx, "tcp", r.address, args...)
}

func (r remote) Pause(context.Context) error  { return errors.ErrUnsupported }
func (r remote) Resume(context.Context) error { return errors.ErrUnsupported }
func (r remote) Kill(context.Context) error   { return errors.ErrUnsupported }
func (r remote) Start(context.Context) error  { return errors.ErrUnsupported }
func (r remote) Close() error                 { return nil }
