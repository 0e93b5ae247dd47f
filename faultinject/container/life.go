package container

import (
	"context"
	"errors"

	"github.com/ory/dockertest/v3/docker"
)

func (s *server) Kill(ctx context.Context) error {
	return s.do("kill", func() error { return s.signal(ctx, docker.SIGKILL) })
}

func (s *server) Stop(ctx context.Context) error {
	return s.do("stop", func() error {
		if err := s.unpause(ctx); err != nil {
			return err
		}
		return s.signal(ctx, docker.SIGTERM)
	})
}

// signal sends a signal that ends the server, and returns once it has ended.
func (s *server) signal(ctx context.Context, with docker.Signal) error {
	state, err := s.state(ctx)
	if err != nil || !state.Running {
		return err
	}
	err = s.client.KillContainer(docker.KillContainerOptions{ID: s.id, Signal: with, Context: ctx})
	if _, down := errors.AsType[*docker.ContainerNotRunning](err); err != nil && !down {
		return err
	}
	_, err = s.client.WaitContainerWithContext(s.id, ctx)
	return err
}

func (s *server) Wipe(ctx context.Context) error {
	return s.do("wipe", func() error {
		state, err := s.state(ctx)
		if err == nil && state.Running {
			err = errRunning
		}
		if err != nil {
			return err
		}
		return s.remove(ctx)
	})
}

// remove removes the container, running or not, and its data.
func (s *server) remove(ctx context.Context) error {
	if s.id == "" {
		return nil
	}
	err := s.client.RemoveContainer(docker.RemoveContainerOptions{ID: s.id, Force: true, RemoveVolumes: true, Context: ctx})
	if _, gone := errors.AsType[*docker.NoSuchContainer](err); err != nil && !gone {
		return err
	}
	s.id = ""
	return nil
}

func (s *server) Pause(ctx context.Context) error {
	return s.do("pause", func() error {
		state, err := s.state(ctx)
		switch {
		case err != nil:
			return err
		case !state.Running:
			return errDown
		case state.Paused:
			return nil
		}
		return s.await(ctx, s.client.PauseContainer)
	})
}

func (s *server) Resume(ctx context.Context) error {
	return s.do("resume", func() error { return s.unpause(ctx) })
}

func (s *server) unpause(ctx context.Context) error {
	state, err := s.state(ctx)
	if err != nil || !state.Paused {
		return err
	}
	return s.await(ctx, s.client.UnpauseContainer)
}

// await makes a call to the engine that has no context parameter.
func (s *server) await(ctx context.Context, call func(id string) error) error {
	id, result := s.id, make(chan error, 1)
	s.calls.Go(func() { result <- call(id) })
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// state returns the engine's state of the container. A missing container is down.
func (s *server) state(ctx context.Context) (docker.State, error) {
	if s.id == "" {
		return docker.State{}, nil
	}
	c, err := s.client.InspectContainerWithContext(s.id, ctx)
	if err != nil {
		return docker.State{}, err
	}
	return c.State, nil
}
