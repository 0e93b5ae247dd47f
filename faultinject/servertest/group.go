package servertest

import (
	"fmt"
	"testing"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/stretchr/testify/require"
)

// RequireIndependent requires that the servers of a group are named n1, n2 and so on, and that each has its own
// address and data.
func RequireIndependent(t *testing.T, group *faultinject.Group) {
	t.Helper()
	addrs := make(map[string]bool)
	for i, s := range group.Servers() {
		require.Equal(t, fmt.Sprintf("n%d", i+1), s.Name())
		addrs[s.Addr()] = true
		require.Equal(t, "+OK", dial(t, s.Addr()).ask(t, "SET k "+s.Name()))
	}
	require.Len(t, addrs, len(group.Servers()))
	for _, s := range group.Servers() {
		require.Equal(t, s.Name(), command(t, s, "GET", "k"))
	}
}
