// Package process runs Redis servers as processes that can be broken: each is a [faultinject.Server]. It needs
// redis-server on PATH, and libfaketime for stepped clocks.
//
// A server listens on loopback behind a [faultinject.Proxy], which cuts it off. On Linux the server ends with the
// program that started it; elsewhere, only Close reliably ends it.
package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/internal/control"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// Start starts n servers in parallel, named n1 to n<n>, and returns once all answer. The caller must close the group,
// which removes everything that the servers left behind.
func Start(ctx context.Context, n int) (*faultinject.Group, error) {
	return faultinject.StartGroup(n, func(name string) (faultinject.Server, error) { return start(ctx, name) })
}

const kind = "process"

type driver struct {
	redis *redisproc.Server
	// noFaketime says why the clock cannot be stepped, if it cannot.
	noFaketime error
}

// start starts a server and waits for its answer. The page cache outlives the process, so appended data survives
// without a sync.
func start(ctx context.Context, name string) (faultinject.Server, error) {
	_, err := redisproc.FindFaketime()
	d := &driver{noFaketime: err}
	opts := []redisproc.Option{redisproc.WithArgs(
		"--appendonly", "yes", "--appendfsync", "no", "--maxmemory-policy", "noeviction",
	)}
	if err == nil {
		opts = append(opts, redisproc.WithFaketime())
	}
	if d.redis, err = redisproc.TryLaunch(ctx, opts...); err != nil {
		return nil, control.Failed(kind, name, "start", err)
	}
	return control.New(kind, name, d.redis.Addr(), d)
}

func (d *driver) Command(ctx context.Context, args ...string) (string, error) {
	return d.redis.Do(ctx, args...)
}

func (d *driver) Start(ctx context.Context) error { return d.redis.TryStart(ctx) }

func (d *driver) Kill(context.Context) error { d.redis.Kill(); return nil }

func (d *driver) Stop(ctx context.Context) error { return d.redis.TryStop(ctx) }

func (d *driver) Wipe(context.Context) error { return d.redis.TryWipe() }

func (d *driver) Lose(ctx context.Context, while time.Duration) error {
	return d.redis.TryLose(ctx, while)
}

func (d *driver) Pause(context.Context) error { return d.redis.TryPause() }

func (d *driver) Resume(context.Context) error { return d.redis.TryResume() }

func (d *driver) StepClock(ctx context.Context, offset time.Duration) error {
	if d.noFaketime != nil {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, d.noFaketime)
	}
	return d.redis.TrySetClock(ctx, offset)
}

func (d *driver) SetMaxMemory(ctx context.Context, limit int64) error {
	return d.redis.TrySetMaxMemory(ctx, limit)
}

func (d *driver) Close() error { return d.redis.TryClose() }
