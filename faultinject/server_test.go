package faultinject_test

import (
	"errors"
	"testing"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/stretchr/testify/require"
)

// closing is a server that can be closed, and nothing else.
type closing struct {
	faultinject.Server
	err    error
	closed int
}

func (c *closing) Close() error {
	c.closed++
	return c.err
}

// start starts servers that are named as these are.
func start(servers map[string]*closing) func(name string) (faultinject.Server, error) {
	return func(name string) (faultinject.Server, error) {
		if s := servers[name]; s != nil {
			return s, nil
		}
		return nil, errors.New("no " + name)
	}
}

func TestGroupClose(t *testing.T) {
	fine, bad := &closing{}, &closing{err: errors.New("stuck")}
	released := 0
	group, err := faultinject.StartGroup(2, start(map[string]*closing{"n1": fine, "n2": bad}), func() error {
		require.Equal(t, []int{1, 1}, []int{fine.closed, bad.closed}, "servers go first")
		released++
		return errors.New("network in use")
	})
	require.NoError(t, err)
	require.Equal(t, []faultinject.Server{fine, bad}, group.Servers())
	for range 2 {
		err := group.Close()
		require.ErrorIs(t, err, bad.err)
		require.ErrorContains(t, err, "network in use")
	}
	require.Equal(t, []int{1, 1, 1}, []int{fine.closed, bad.closed, released})
}

func TestGroupWithoutServersCloses(t *testing.T) {
	group, err := faultinject.StartGroup(0, start(nil), nil)
	require.NoError(t, err)
	require.NoError(t, group.Close())
}

func TestGroupIsClosedIfAServerDoesNotStart(t *testing.T) {
	first, third := &closing{}, &closing{err: errors.New("stuck")}
	released := 0
	group, err := faultinject.StartGroup(3, start(map[string]*closing{"n1": first, "n3": third}), func() error {
		released++
		return nil
	})
	require.Nil(t, group)
	require.ErrorContains(t, err, "no n2")
	require.ErrorIs(t, err, third.err)
	require.Equal(t, []int{1, 1, 1}, []int{first.closed, third.closed, released})
}
