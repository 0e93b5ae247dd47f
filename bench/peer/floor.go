package peer

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

var floor = Peer{
	Name: "floor", Kind: Limit,
	About: "The floor: for each lock and node a goroutine and an EVALSHA that locks and does nothing else; no lease, no timeout, no recovery, no token. It returns when a majority has answered.",
	Open: func(ctx context.Context, o Options) (Client, error) {
		clients, err := connect(ctx, o.Addresses)
		if err != nil {
			return nil, err
		}
		return &floorClient{
			clients: clients,
			ttl:     strconv.FormatInt(o.TTL.Milliseconds(), 10),
			prefix:  ownerPrefix(),
		}, nil
	},
}

// ownerPrefix differs between the processes of a cell, because they start one after the other.
func ownerPrefix() string { return strconv.FormatInt(time.Now().UnixNano(), 36) + ":" }

type floorClient struct {
	clients    []rueidis.Client
	ttl        string
	prefix     string
	owners     atomic.Uint64
	stragglers sync.WaitGroup
}

func (c *floorClient) Lock(name string) Lock { return &floorLock{client: c, name: name} }

// Close ends the connections first: otherwise stragglers would wait forever for a hanging node.
func (c *floorClient) Close(context.Context) error {
	closeAll(c.clients)
	c.stragglers.Wait()
	return nil
}

// ask runs a script on all nodes. It returns once a majority has granted, or no majority can grant any more.
func (c *floorClient) ask(ctx context.Context, s script, args [3]string, n int) error {
	answers := make(chan answer, len(c.clients))
	for _, client := range c.clients {
		c.stragglers.Go(func() {
			yes, err := granted(run(ctx, client, s, args, n))
			answers <- answer{yes: yes, err: err}
		})
	}
	return majority(answers, len(c.clients))
}

type answer struct {
	yes bool
	err error
}

// majority reads answers of n nodes until they decide the result.
func majority(answers <-chan answer, n int) error {
	yes, no := 0, 0
	for {
		a := <-answers
		if a.yes {
			yes++
		} else {
			no++
		}
		switch need := n/2 + 1; {
		case yes == need:
			return nil
		case no > n-need && a.err != nil:
			return a.err
		case no > n-need:
			return errDenied
		}
	}
}

type floorLock struct {
	client *floorClient
	name   string
	owner  string
}

func (l *floorLock) Acquire(ctx context.Context) error {
	l.owner = l.client.prefix + strconv.FormatUint(l.client.owners.Add(1), 10)
	err := l.client.ask(ctx, acquireScript, [3]string{l.name, l.owner, l.client.ttl}, 3)
	if err != nil {
		_ = l.Release(ctx) // some nodes may have granted
	}
	return err
}

func (l *floorLock) Release(ctx context.Context) error {
	return l.client.ask(ctx, releaseScript, [3]string{l.name, l.owner}, 2)
}
