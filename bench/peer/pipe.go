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
		c := &pipeClient{
			owners: newOwners(), ttl: strconv.FormatInt(o.TTL.Milliseconds(), 10), stop: make(chan struct{}),
		}
		for _, address := range o.Addresses {
			n, err := dialPipe(ctx, address)
			if err != nil {
				return nil, errors.Join(err, c.Close(ctx))
			}
			c.nodes = append(c.nodes, n)
			c.running.Go(func() { n.run(c.stop) })
		}
		return c, nil
	},
}

type pipeClient struct {
	*owners
	nodes   []*pipeNode
	stop    chan struct{}
	running sync.WaitGroup
	ttl     string
}

func (c *pipeClient) Lock(name string, _ int) Lock { return c.Batch([]string{name}) }

// Batch encodes the commands of all locks once. The owners never change. A node may still be processing old commands
// when they are sent again.
func (c *pipeClient) Batch(names []string) Lock {
	l := &pipeLock{client: c, n: len(names)}
	for _, name := range names {
		owner := c.next()
		l.acquired = appendCommand(l.acquired, "EVALSHA", acquireScript.sha, "1", name, owner, c.ttl)
		l.released = appendCommand(l.released, "EVALSHA", releaseScript.sha, "1", name, owner)
	}
	return l
}

func (c *pipeClient) Close(context.Context) error {
	close(c.stop)
	for _, n := range c.nodes {
		_ = n.conn.Close() // calls in flight fail
	}
	c.running.Wait()
	return nil
}

// pipeLock is many locks that are acquired and released together.
type pipeLock struct {
	client             *pipeClient
	n                  int
	acquired, released []byte
}

func (l *pipeLock) Acquire(context.Context) error { return l.client.send(l.acquired, l.n) }
func (l *pipeLock) Release(context.Context) error { return l.client.send(l.released, l.n) }

func (c *pipeClient) send(bytes []byte, replies int) error {
	answers := make(chan answer, len(c.nodes))
	for _, n := range c.nodes {
		n.put(pipeBatch{bytes: bytes, replies: replies, answer: answers})
	}
	return majority(answers, len(c.nodes))
}

// pipeBatch is commands for a node, and the number of replies to them.
type pipeBatch struct {
	bytes   []byte
	replies int
	answer  chan<- answer
}

// pipeNode is the connection to one node.
type pipeNode struct {
	*sender[pipeBatch]
	conn   net.Conn
	reader *bufio.Reader
}

func dialPipe(ctx context.Context, address string) (*pipeNode, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("node %s: connect: %w", address, err)
	}
	n := &pipeNode{conn: conn, reader: bufio.NewReaderSize(conn, 64<<10)}
	n.sender = newSender(func(batches []pipeBatch) {
		for _, b := range batches {
			err := n.exchange(b)
			b.answer <- answer{yes: err == nil, err: err}
		}
	})
	for _, s := range []script{acquireScript, releaseScript} {
		if _, err = conn.Write(appendCommand(nil, "SCRIPT", "LOAD", s.source)); err == nil {
			_, err = n.reader.ReadSlice('\n') // the length of the name, which is on the next line
		}
		if err == nil {
			_, err = n.reader.ReadSlice('\n')
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("node %s: load a script: %w", address, err), conn.Close())
		}
	}
	return n, nil
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
	b = append(strconv.AppendInt(append(b, '*'), int64(len(args)), 10), "\r\n"...)
	for _, a := range args {
		b = append(strconv.AppendInt(append(b, '$'), int64(len(a)), 10), "\r\n"...)
		b = append(append(b, a...), "\r\n"...)
	}
	return b
}
