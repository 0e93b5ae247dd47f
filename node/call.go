package node

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
)

// call runs one command or a pipeline on the connection.
//
// rueidis trusts the lengths that a server announces, and panics on absurd ones. The panic is in this
// goroutine, since there is one call at a time. A node that breaks the protocol must not end the program, so
// the panic becomes an error of that node.
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

// connect makes the client. Unless a panic prevents it, there is always a client to drop afterwards.
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

// discard gives up a client that a panic has left in an unknown state: to close it could block for ever.
// Without its connection it is garbage.
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

// withoutDone hides the Done channel of a context without a deadline. rueidis then stays on its synchronous
// path, which ConnWriteTimeout bounds.
func withoutDone(ctx context.Context) context.Context {
	if _, ok := ctx.Deadline(); ok || ctx.Done() == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}
