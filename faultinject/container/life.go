package container

import (
	"context"
	"errors"
	"strings"

	"github.com/ory/dockertest/v3/docker"
)

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

// remove removes the container, running or not, and its data.
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
