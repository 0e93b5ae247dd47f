package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
)

var pipe = Peer{
	Name: "pipe", Kind: Limit,
	About: "The pipe limit: the most that the nodes can do. One goroutine sends the scripts of all callers' locks as one batch over bare sockets, and awaits a majority.",
	Open: func(ctx context.Context, o Options) (Client, error) {
		c := &pipeClient{ttl: strconv.FormatInt(o.TTL.Milliseconds(), 10), prefix: ownerPrefix()}
		for _, address := range o.Addresses {
			n, err := dialPipe(ctx, address)
			if err != nil {
				return nil, errors.Join(err, c.Close(ctx))
			}
			c.nodes = append(c.nodes, n)
			c.running.Go(n.run)
		}
		return c, nil
	},
}

type pipeClient struct {
	nodes   []*pipeNode
	running sync.WaitGroup
	ttl     string
	prefix  string
}

func (c *pipeClient) Lock(name string) Lock { return c.Batch([]string{name}) }

func (c *pipeClient) Batch(names []string) Lock {
	return &pipeLock{client: c, names: names, acquired: make([]byte, 0, 1<<10), released: make([]byte, 0, 1<<10)}
}

func (c *pipeClient) Close(context.Context) error {
	for _, n := range c.nodes {
		close(n.batches)
		_ = n.conn.Close() // calls in flight fail
	}
	c.running.Wait()
	return nil
}

// pipeBatch is a batch for every node, and the number of replies to it.
type pipeBatch struct {
	bytes   []byte
	replies int
	answer  chan<- answer
}

// pipeNode is the connection to one node.
type pipeNode struct {
	conn    net.Conn
	reader  *bufio.Reader
	batches chan pipeBatch
}

// pipeAhead limits how many batches the majority may be ahead of a node.
const pipeAhead = 64

func dialPipe(ctx context.Context, address string) (*pipeNode, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("node %s: connect: %w", address, err)
	}
	n := &pipeNode{conn: conn, reader: bufio.NewReaderSize(conn, 64<<10), batches: make(chan pipeBatch, pipeAhead)}
	for _, s := range []script{acquireScript, releaseScript} {
		if _, err = conn.Write(appendCommand(nil, "SCRIPT", "LOAD", s.source)); err == nil {
			err = n.skipBulk()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("node %s: load a script: %w", address, err), conn.Close())
		}
	}
	return n, nil
}

// skipBulk reads one bulk string: a line with its length, and a line of it.
func (n *pipeNode) skipBulk() error {
	for range 2 {
		if _, err := n.reader.ReadSlice('\n'); err != nil {
			return err
		}
	}
	return nil
}

func (n *pipeNode) run() {
	for b := range n.batches {
		err := n.exchange(b)
		b.answer <- answer{yes: err == nil, err: err}
	}
}

// exchange sends a batch and reads its replies, each of which must be a 1.
func (n *pipeNode) exchange(b pipeBatch) error {
	if _, err := n.conn.Write(b.bytes); err != nil {
		return err
	}
	var denied error
	for range b.replies {
		line, err := n.reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		if string(line) != ":1\r\n" {
			denied = fmt.Errorf("the node said %q", line)
		}
	}
	return denied
}

// appendCommand appends one command as servers read it.
func appendCommand(b []byte, args ...string) []byte {
	b = strconv.AppendInt(append(b, '*'), int64(len(args)), 10)
	b = append(b, "\r\n"...)
	for _, a := range args {
		b = strconv.AppendInt(append(b, '$'), int64(len(a)), 10)
		b = append(b, "\r\n"...)
		b = append(b, a...)
		b = append(b, "\r\n"...)
	}
	return b
}

// pipeLock is many locks that are acquired and released together. The owner never changes, so the commands are
// encoded once. A node may still be processing old ones when they are sent again.
type pipeLock struct {
	client             *pipeClient
	names              []string
	acquired, released []byte
}

func (l *pipeLock) Acquire(context.Context) error {
	if len(l.acquired) == 0 {
		for i, name := range l.names {
			owner := l.client.prefix + strconv.Itoa(i)
			l.acquired = appendCommand(l.acquired, "EVALSHA", acquireScript.sha, "1", name, owner, l.client.ttl)
			l.released = appendCommand(l.released, "EVALSHA", releaseScript.sha, "1", name, owner)
		}
	}
	return l.client.send(l.acquired, len(l.names))
}

func (l *pipeLock) Release(context.Context) error {
	return l.client.send(l.released, len(l.names))
}

// send queues a batch for all nodes. It waits for a node that is too far behind.
func (c *pipeClient) send(bytes []byte, replies int) error {
	answers := make(chan answer, len(c.nodes))
	for _, n := range c.nodes {
		n.batches <- pipeBatch{bytes: bytes, replies: replies, answer: answers}
	}
	return majority(answers, len(c.nodes))
}
