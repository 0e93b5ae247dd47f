package node

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
)

// call runs commands on the connection, one or a pipeline of them.
//
// rueidis trusts the lengths that a server announces, and panics on absurd ones. It does
// so in this goroutine, as there is one call at a time; a node that breaks the protocol
// must not end the program, so it counts as an error of that node.
func (l *link) call(ctx context.Context, cmds ...rueidis.Completed) (results []rueidis.RedisResult) {
	defer func() {
		if p := recover(); p != nil {
			l.discard()
			results = make([]rueidis.RedisResult, len(cmds))
			for i := range results {
				results[i] = rueidis.NewErrorResult(panicError(p))
			}
		}
	}()
	if len(cmds) == 1 {
		return []rueidis.RedisResult{l.client.Do(withoutDone(ctx), cmds[0])}
	}
	return l.client.DoMulti(withoutDone(ctx), cmds...)
}

// connect makes the client and, unless a panic is to blame for its absence, always has
// one to drop.
func (l *link) connect(opt rueidis.ClientOption) (err error) {
	defer func() {
		if p := recover(); p != nil {
			l.discard()
			err = panicError(p)
		}
	}()
	l.client, err = rueidis.NewClient(opt)
	return err
}

// discard gives up a client in which a panic has left things half done: closing it could
// wait for ever. Without its connection it is garbage.
func (l *link) discard() {
	if l.connID.id != "" {
		l.brokenConn = l.connID
	}
	if conn := l.conn.Swap(nil); conn != nil {
		_ = (*conn).Close()
	}
	l.reset()
}

func panicError(p any) error { return fmt.Errorf("%w: %v", errProtocol, p) }

// withoutDone gives a context without a deadline no Done channel either: rueidis then
// stays on its synchronous path, bounded by ConnWriteTimeout.
func withoutDone(ctx context.Context) context.Context {
	if _, ok := ctx.Deadline(); ok || ctx.Done() == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}
