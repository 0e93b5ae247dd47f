package node_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/node"
)

// ofRueidis lists the running goroutines of rueidis.
func ofRueidis() (found []string) {
	buf := make([]byte, 1<<20)
	for one := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(one, "rueidis.(*") {
			found = append(found, one)
		}
	}
	return found
}

// Close of a healthy node leaves no goroutine, not even one that is about to end.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	server := redisproc.Start(t)
	require.Eventually(t, func() bool { return ofRueidis() == nil }, patience, time.Millisecond, "of the test before")
	for range 300 {
		n, err := node.New(node.Options{Addresses: []string{server.Addr()}})
		require.NoError(t, err)
		require.NoError(t, n.Probe(t.Context()))
		require.NoError(t, n.Close())
		require.Empty(t, ofRueidis())
		require.ErrorIs(t, n.Probe(t.Context()), node.ErrClosed)
		require.NoError(t, n.Close())
	}
	require.Eventually(t, func() bool {
		list, err := server.Command("CLIENT", "LIST")
		return err == nil && strings.Count(list, "name=quorumlock") == 0
	}, patience, time.Millisecond, "the connections are closed")
}
