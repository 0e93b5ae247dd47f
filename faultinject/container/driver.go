package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/internal/control"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

const kind = "container"

const (
	portAttempts = 10
	pollInterval = 5 * time.Millisecond
	startTimeout = time.Minute // many may start at once on a small machine
	closeTimeout = time.Minute
)

var (
	errDown      = errors.New("the server is down")
	errRunning   = errors.New("the server is running")
	errPortTaken = errors.New("the port is taken")
)

// driver is one container. Wiping its data replaces the container.
type driver struct {
	name   string
	group  *group
	client *docker.Client // of its own: it is not made for concurrent starts
	dir    string         // mounted as sharedDir
	calls  sync.WaitGroup // to the engine, in the background

	id        string // empty while there is none
	port      int    // published on loopback
	maxMemory int64
}

func (g *group) startServer(ctx context.Context, name string) (faultinject.Server, error) {
	d := &driver{name: name, group: g}
	if err := d.launch(ctx); err != nil {
		err = control.Failed(kind, name, "start", err)
		return nil, errors.Join(err, d.Close()) //nolint:contextcheck // it is closed even if ctx has ended
	}
	return control.New(kind, name, d.direct(), d)
}

// launch starts the container for the first time. It looks for ports until the engine could bind one.
func (d *driver) launch(ctx context.Context) error {
	pool, err := dockertest.NewPool("")
	if err != nil {
		return err
	}
	d.client = pool.Client
	if err = d.share(); err != nil {
		return err
	}
	for range portAttempts {
		// Another process may have taken the port since it was free.
		if err = d.launchAtFreePort(ctx); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}

func (d *driver) launchAtFreePort(ctx context.Context) (err error) {
	if err = d.remove(ctx); err != nil {
		return err
	}
	if d.port, err = redisproc.FreePort(); err != nil {
		return err
	}
	if err = d.writeConfig(); err != nil {
		return err
	}
	return d.start(ctx)
}

func (d *driver) direct() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(d.port)) }

func (d *driver) Command(ctx context.Context, args ...string) (string, error) {
	return redisproc.Exchange(ctx, "tcp", d.direct(), args...)
}

func (d *driver) Start(ctx context.Context) error {
	state, err := d.state(ctx)
	if err != nil || state.Paused {
		return err
	}
	if state.Running {
		return d.awaitAnswer(ctx) // a start that was given up may have gone on
	}
	return d.startAgain(ctx)
}

// startAgain starts on the same port. Another process that took it meanwhile may free it again.
func (d *driver) startAgain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for ; ; time.Sleep(pollInterval) {
		err := d.start(ctx)
		if !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			return err
		}
	}
}

// start starts the container, creates it if necessary, and waits for an answer.
func (d *driver) start(ctx context.Context) error {
	if err := d.create(ctx); err != nil {
		return err
	}
	if err := d.client.StartContainerWithContext(d.id, nil, ctx); err != nil {
		text := err.Error()
		if strings.Contains(text, "port is already allocated") || strings.Contains(text, "address already in use") {
			err = fmt.Errorf("%w: %w", errPortTaken, err)
		}
		return err
	}
	if err := d.awaitAnswer(ctx); err != nil {
		return d.giveUp(ctx, err)
	}
	return nil
}

// giveUp ends a container that did not answer, and adds its log to the error.
func (d *driver) giveUp(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	var log bytes.Buffer
	_ = d.client.Logs(docker.LogsOptions{
		Context: ctx, Container: d.id, OutputStream: &log, ErrorStream: &log, Stdout: true, Stderr: true, Tail: "20",
	})
	return errors.Join(fmt.Errorf("%w; its log:\n%s", err, log.Bytes()), d.signal(ctx, docker.SIGKILL))
}

func (d *driver) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for ; ; time.Sleep(pollInterval) {
		_, err := d.Command(ctx, "PING")
		if err == nil {
			return nil
		}
		state, stateErr := d.state(ctx)
		if stateErr == nil && !state.Running {
			return fmt.Errorf("it ended with code %d", state.ExitCode)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("no answer: %w (%w)", err, ctx.Err())
		}
	}
}

func (d *driver) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := d.remove(ctx); err != nil {
		return err
	}
	d.calls.Wait()
	if d.client != nil {
		d.client.HTTPClient.CloseIdleConnections()
	}
	return os.RemoveAll(d.dir)
}

func (d *driver) Kill(ctx context.Context) error { return d.signal(ctx, docker.SIGKILL) }

func (d *driver) Stop(ctx context.Context) error {
	if err := d.Resume(ctx); err != nil {
		return err
	}
	return d.signal(ctx, docker.SIGTERM)
}

// signal sends a signal that ends the server, and returns once it has ended.
func (d *driver) signal(ctx context.Context, with docker.Signal) error {
	state, err := d.state(ctx)
	if err != nil || !state.Running {
		return err
	}
	err = d.client.KillContainer(docker.KillContainerOptions{ID: d.id, Signal: with, Context: ctx})
	var down *docker.ContainerNotRunning
	if err != nil && !errors.As(err, &down) {
		return err
	}
	_, err = d.client.WaitContainerWithContext(d.id, ctx)
	return err
}

func (d *driver) Wipe(ctx context.Context) error {
	state, err := d.state(ctx)
	if err == nil && state.Running {
		err = errRunning
	}
	if err != nil {
		return err
	}
	return d.remove(ctx)
}

func (d *driver) remove(ctx context.Context) error {
	if d.id == "" {
		return nil
	}
	err := d.client.RemoveContainer(docker.RemoveContainerOptions{ID: d.id, Force: true, RemoveVolumes: true, Context: ctx})
	var gone *docker.NoSuchContainer
	if err != nil && !errors.As(err, &gone) {
		return err
	}
	d.id = ""
	return nil
}

func (d *driver) Pause(ctx context.Context) error {
	state, err := d.state(ctx)
	switch {
	case err != nil:
		return err
	case !state.Running:
		return errDown
	case state.Paused:
		return nil
	}
	for try := 1; ; try++ {
		err := d.await(ctx, d.client.PauseContainer)
		if err == nil || try == maxPauses || !strings.Contains(err.Error(), "unable to freeze") {
			return err
		}
	}
}

// maxPauses is how often a container is paused until that succeeds. On a busy machine not all processes may be frozen
// in the time that the runtime grants. It thaws them again then.
const maxPauses = 10

func (d *driver) Resume(ctx context.Context) error {
	state, err := d.state(ctx)
	if err != nil || !state.Paused {
		return err
	}
	return d.await(ctx, d.client.UnpauseContainer)
}

// await makes a call to the engine that has no context parameter.
func (d *driver) await(ctx context.Context, call func(id string) error) error {
	id, result := d.id, make(chan error, 1)
	d.calls.Go(func() { result <- call(id) })
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// state returns the engine's state of the container. A missing container is down.
func (d *driver) state(ctx context.Context) (docker.State, error) {
	if d.id == "" {
		return docker.State{}, nil
	}
	c, err := d.client.InspectContainerWithContext(d.id, ctx)
	if err != nil {
		return docker.State{}, err
	}
	return c.State, nil
}
