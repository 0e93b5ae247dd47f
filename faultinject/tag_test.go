package faultinject_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/node"
)

// A wrapped slot of a cluster still tells clients the hash tag that all names need.
func TestWrappedSlotHasItsTag(t *testing.T) {
	inner, err := node.Open("redis://127.0.0.1:1?tag=ql")
	require.NoError(t, err)
	n := faultinject.Wrap(inner)
	defer func() { require.NoError(t, n.Close()) }()
	_, err = quorumlock.New(quorumlock.Config{Nodes: []node.Node{inner}, Prefix: "{other}:"})
	require.ErrorIs(t, err, quorumlock.ErrInvalid)
	_, err = quorumlock.New(quorumlock.Config{Nodes: []node.Node{n}, Prefix: "{other}:"})
	require.ErrorIs(t, err, quorumlock.ErrInvalid)
}
