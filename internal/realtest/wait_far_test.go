//go:build unix

package realtest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// far is a node with added latency. Tests then measure round trips, and not the load of the machine.
type far struct {
	node.Node
	// way is the latency of one direction.
	way time.Duration
}

// farNode wraps the node of a real server. It is closed at the end of the test.
func farNode(t testing.TB, address string, way time.Duration) node.Node {
	t.Helper()
	opt, err := node.ParseAddress(address)
	require.NoError(t, err)
	nd, err := node.NewRedis(opt)
	require.NoError(t, err)
	t.Cleanup(func() { _ = nd.Close() })
	return &far{Node: nd, way: way}
}

func (f *far) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	time.Sleep(f.way)
	f.Node.Do(ctx, ops, replies)
	time.Sleep(f.way)
}

func (f *far) Listen(ctx context.Context, client string, deliver func(node.Message)) (node.Inbox, error) {
	mail := make(chan letter, 1024)
	in := &farInbox{mail: mail}
	in.reading.Go(func() {
		for l := range mail {
			time.Sleep(time.Until(l.due))
			deliver(l.message)
		}
	})
	var err error
	in.Inbox, err = node.Listen(ctx, f.Node, client, func(m node.Message) { mail <- letter{m, time.Now().Add(f.way)} })
	if err != nil {
		close(mail)
		return nil, err
	}
	return in, nil
}

// letter is a message in transit.
type letter struct {
	message node.Message
	due     time.Time
}

type farInbox struct {
	node.Inbox
	mail    chan letter
	reading sync.WaitGroup
	once    sync.Once
}

func (in *farInbox) Close() error {
	err := in.Inbox.Close() // No message comes after this.
	in.once.Do(func() { close(in.mail) })
	in.reading.Wait()
	return err
}
