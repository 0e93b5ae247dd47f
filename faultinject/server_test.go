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

func TestGroupClose(t *testing.T) {
	fine, bad := &closing{}, &closing{err: errors.New("stuck")}
	released := 0
	group := faultinject.NewGroup([]faultinject.Server{fine, bad}, func() error {
		require.Equal(t, []int{1, 1}, []int{fine.closed, bad.closed}, "servers go first")
		released++
		return errors.New("network in use")
	})
	require.Equal(t, []faultinject.Server{fine, bad}, group.Servers())
	for range 2 {
		err := group.Close()
		require.ErrorIs(t, err, bad.err)
		require.ErrorContains(t, err, "network in use")
	}
	require.Equal(t, []int{1, 1, 1}, []int{fine.closed, bad.closed, released})
	require.NoError(t, faultinject.NewGroup(nil, nil).Close())
}
