package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/redisproc"
)

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
