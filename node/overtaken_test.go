package node_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// slowStart is a client whose first command begins when the gate opens.
type slowStart struct {
	rueidis.Client
	commands atomic.Int32
	gate     chan struct{}
}

func (c *slowStart) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if c.commands.Add(1) == 1 {
		<-c.gate
	}
	return c.Client.Do(ctx, cmd)
}

// The second of two exchanges that overlap may come to rueidis first. The first one is then queued behind it, and has
// its timeout all the same, if the server falls silent.
func TestRedisBoundsAnExchangeThatIsOvertaken(t *testing.T) {
	var scripts atomic.Int32
	asked, answer := make(chan struct{}), make(chan struct{})
	server := redisproc.Serve(t, fake(func([]string) (string, bool) {
		switch scripts.Add(1) {
		case 1:
			return ":1\r\n", true
		case 2:
			close(asked)
			<-answer
			return ":1\r\n", true
		default:
			return "", true // silent
		}
	}))
	n := openWith(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}, ConnWriteTimeout: time.Second})
	want(t, wire.Granted, n, acquire("o1", "a"))

	gate := make(chan struct{})
	n.WrapClient(func(c rueidis.Client) rueidis.Client { return &slowStart{Client: c, gate: gate} })
	waitFirst := doAll(n, acquire("o2", "b"))
	awaitSharers(t, n, 1)
	waitSecond := doAll(n, acquire("o3", "c"))
	<-asked
	close(gate)
	// The first exchange comes to rueidis while the second waits for its reply, which nothing outside of rueidis shows.
	// Should it come later, it has its bound in any case.
	time.Sleep(100 * time.Millisecond)
	close(answer)
	require.NoError(t, waitSecond()[0].Err)

	ended := make(chan wire.Reply, 1)
	go func() { ended <- waitFirst()[0] }()
	select {
	case r := <-ended:
		require.Error(t, r.Err)
		assert.False(t, r.Unsent)
	case <-time.After(soon):
		t.Error("the exchange has no bound")
	}
}
