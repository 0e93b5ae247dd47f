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

func TestGroupIsClosedIfAServerDoesNotStart(t *testing.T) {
	first, third := &closing{}, &closing{err: errors.New("stuck")}
	servers := map[string]*closing{"n1": first, "n3": third}
	group, err := faultinject.StartGroup(3, func(name string) (faultinject.Server, error) {
		if s := servers[name]; s != nil {
			return s, nil
		}
		return nil, errors.New("no " + name)
	})
	require.Nil(t, group)
	require.ErrorContains(t, err, "no n2")
	require.ErrorIs(t, err, third.err)
	require.Equal(t, []int{1, 1}, []int{first.closed, third.closed})
}
