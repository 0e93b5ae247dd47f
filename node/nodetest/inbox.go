package nodetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// box is an inbox with its received messages.
type box struct {
	node.Inbox
	x        *trial
	client   string
	messages chan node.Message
}

// patience is how long a test waits for a message that must come.
const patience = 30 * time.Second

// listen opens the inbox of a client.
func (x *trial) listen(client string) *box {
	x.Helper()
	return x.listenOn(x.Node, client)
}

func (x *trial) listenOn(n node.Node, client string) *box {
	x.Helper()
	b := &box{x: x, client: client, messages: make(chan node.Message, 10_000)}
	inbox, err := node.Listen(context.Background(), n, client, func(m node.Message) { b.messages <- m })
	require.NoError(x, err)
	b.Inbox = inbox
	x.Cleanup(func() { _ = inbox.Close() })
	return b
}

func woken(waiter, name string) node.Message {
	return node.Message{Kind: node.Woken, Waiter: waiter, Name: name}
}

func announced(name string) node.Message {
	return node.Message{Kind: node.Announced, Name: name}
}

func returned(waiter, name string) node.Message {
	return node.Message{Kind: node.Returned, Waiter: waiter, Name: name}
}

func standby(waiter, name string) node.Message {
	return node.Message{Kind: node.Standby, Waiter: waiter, Name: name}
}

// next returns the next message.
func (b *box) next() node.Message {
	b.x.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case m := <-b.messages:
		return m
	case <-timer.C:
		require.Fail(b.x, "waited in vain for a message")
		return node.Message{}
	}
}

// received returns the messages since the last call, up to one that it causes itself. Their fences are left
// out.
func (b *box) received() []node.Message {
	b.x.Helper()
	name, waiter := "end of "+b.client, b.client+":end"
	b.x.outcomes(b.x.do(
		acquire("o of "+b.client, long, name),
		waiting(waiter, 1, acquire("o2 of "+b.client, long, name)),
		release("o of "+b.client, name),
		leave(waiter, name),
	), node.Granted, node.Denied, node.Released, node.Released)
	messages := []node.Message{}
	for {
		m := b.next()
		if m.Fence = 0; m == woken(waiter, name) {
			return messages
		}
		messages = append(messages, m)
	}
}

// receives requires these messages since the last call.
func (b *box) receives(messages ...node.Message) {
	b.x.Helper()
	assert.Equal(b.x, append([]node.Message{}, messages...), b.received())
}

// receivesOf requires these messages about a name.
func (b *box) receivesOf(name string, messages ...node.Message) {
	b.x.Helper()
	about := []node.Message{}
	for _, m := range b.received() {
		if m.Name == name {
			about = append(about, m)
		}
	}
	assert.Equal(b.x, append([]node.Message{}, messages...), about)
}

// receives requires these messages in the group's inbox since the last call.
func (x *trial) receives(messages ...node.Message) {
	x.Helper()
	x.inbox.receives(messages...)
}

// receivesOf requires these messages about a name in the group's inbox.
func (x *trial) receivesOf(name string, messages ...node.Message) {
	x.Helper()
	x.inbox.receivesOf(name, messages...)
}

// listening has the promises about the inbox itself.
var listening = []promise{
	{"messages reach all inboxes of the client, and no others", func(x *trial) {
		first, second, other := x.listen("c"), x.listen("c"), x.listen("d")
		x.line("a", "c:1")
		x.want(node.Released, release("o1", "a"))
		first.receives(woken("c:1", "a"))
		assert.Equal(x, "c:1", second.next().Waiter)
		other.receives()
	}},
	{"messages reach inboxes on other handles", func(x *trial) {
		handles := x.handles()
		b := x.listenOn(handles[len(handles)-1], "c")
		x.line("a", "c:1")
		x.want(node.Released, release("o1", "a"))
		b.receives(woken("c:1", "a"))
	}},
	{"a message tells the fence of the name", func(x *trial) {
		b := x.listen("c")
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("o1", long, "a")))
		x.queues("c:1", 1, 0, "a")
		x.queues("c:2", 2, 1, "a")
		x.want(node.Released, release("o1", "a"))
		assert.Equal(x, node.Message{Kind: node.Woken, Waiter: "c:1", Name: "a", Fence: token}, b.next())
		assert.Equal(x, node.Message{Kind: node.Standby, Waiter: "c:2", Name: "a", Fence: token}, b.next())
		x.held("b")
		x.queues("c:1", 1, 0, "b", "never locked")
		x.want(node.Absent, release("o2", "never locked"))
		assert.Equal(x, woken("c:1", "never locked"), b.next())
	}},
	{"a name and an id may hold any bytes", func(x *trial) {
		b := x.listen("c")
		for _, bytes := range odd {
			id := "c:" + bytes
			x.held(bytes)
			x.queues(id, 1, 0, bytes)
			x.want(node.Released, release("o1", bytes))
			b.receives(woken(id, bytes))
			x.want(node.Released, leave(id, bytes))
		}
	}},
	{"the client of an id ends before the first colon", func(x *trial) {
		whole, longer, strange := x.listen("c"), x.listen("cc"), x.listen("c\x00{}*")
		x.held("a")
		for i, id := range []string{"c::", "c", "cc:c:1", "c\x00{}*:1"} {
			x.queues(id, int64(i), i, "a")
		}
		for _, id := range []string{"c::", "c", "cc:c:1"} {
			x.want(node.Released, leave(id, "a"))
		}
		x.want(node.Released, release("o1", "a"))
		strange.receives(woken("c\x00{}*:1", "a"))
		whole.receives()
		longer.receives()
	}},
	{"a closed inbox receives nothing", func(x *trial) {
		b, other := x.listen("c"), x.listen("d")
		x.line("a", "c:1", "d:1")
		require.NoError(x, b.Close())
		require.NoError(x, b.Close())
		x.eventuallyDead("c")
		x.want(node.Released, release("o1", "a"))
		other.receives(woken("d:1", "a"))
		assert.Empty(x, b.messages)
	}},
	{"a closed node closes its inboxes", func(x *trial) {
		b := x.listen("c")
		require.NoError(x, x.Node.Close())
		require.NoError(x, b.Close())
		_, err := node.Listen(context.Background(), x.Node, "c", func(node.Message) {})
		x.probeFailed(node.ErrClosed, err)
	}},
	{"an invalid client id is refused", func(x *trial) {
		for _, client := range []string{"", "c:", ":", "c:1"} {
			_, err := node.Listen(context.Background(), x.Node, client, func(node.Message) {})
			x.probeFailed(node.ErrMisconfigured, err)
		}
	}},
	{"a context that has ended opens no inbox", func(x *trial) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := node.Listen(ctx, x.Node, "c", func(node.Message) {})
		x.probeFailed(node.ErrCanceled, err)
	}},
	{"the context bounds nothing but the opening", func(x *trial) {
		ctx, cancel := context.WithCancel(context.Background())
		messages := make(chan node.Message, 1)
		inbox, err := node.Listen(ctx, x.Node, "c", func(m node.Message) { messages <- m })
		require.NoError(x, err)
		cancel()
		x.line("a", "c:1")
		x.want(node.Released, release("o1", "a"))
		assert.Equal(x, "c:1", (<-messages).Waiter)
		require.NoError(x, inbox.Close())
	}},
}

// eventuallyDead waits until the client's inbox has no subscriber: a server notices a closed connection a
// little later.
func (x *trial) eventuallyDead(client string) {
	x.Helper()
	const name = "probe of the dead"
	x.want(node.Granted, acquire("o9", long, name))
	for end := time.Now().Add(patience); time.Now().Before(end); {
		replies := x.do(
			waiting(client+":dead", 1, acquire("o8", long, name)),
			release("o9", name),
			leave(client+":dead", name),
			acquire("o9", long, name),
		)
		if replies[2].Outcome == node.Absent {
			return
		}
	}
	require.Fail(x, "an inbox still listens")
}
