package node

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// call runs one command or a pipeline on the connection.
func (l *link) call(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	ctx, cancel := l.bound(ctx)
	defer cancel()
	results, panicked := run(ctx, l.client, cmds, nil)
	if panicked {
		l.discard()
	}
	return results
}

// run runs commands. The result of a single one is appended to single.
//
// rueidis trusts the lengths that a server announces, and panics on absurd ones. The panic is in this
// goroutine, except on a connection whose exchanges overlap, and the guard below rueidis forestalls it. A node
// that breaks the protocol must not end the program, so the panic becomes an error of that node.
func run(ctx context.Context, client rueidis.Client, cmds []rueidis.Completed, single []rueidis.RedisResult) (results []rueidis.RedisResult, panicked bool) {
	defer func() {
		if p := recover(); p != nil {
			panicked = true
			results = make([]rueidis.RedisResult, len(cmds))
			for i := range results {
				results[i] = rueidis.NewErrorResult(panicError(p))
			}
		}
	}()
	if len(cmds) == 1 {
		return append(single, client.Do(ctx, cmds[0])), false
	}
	return client.DoMulti(ctx, cmds...), false
}

// bound bounds a call that may overlap with others. ConnWriteTimeout bounds only a call that is alone.
//
// An exchange began alone, without a deadline, if it is the first of two that overlap. The second may come to rueidis
// before it. Then the first waits in the queue of rueidis, where nothing bounds it. So escape does.
func (l *link) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.sharers > 0 && !l.overlapped {
		l.overlapped = true
		if conn := l.conn.Load(); conn != nil {
			l.escape = time.AfterFunc(l.timeout, func() { _ = (*conn).Close() }) //nolint:forbidigo // connections have their deadlines by this clock
		}
	}
	if l.overlapped {
		return context.WithTimeout(withoutDone(ctx), l.timeout)
	}
	return withoutDone(ctx), func() {}
}

// stopEscape stops escape, since the exchange that began alone has ended.
func (l *link) stopEscape() {
	if l.escape != nil {
		l.escape.Stop()
		l.escape = nil
	}
}

// enoughSamples is how many exchanges tell a far server from a busy machine.
const enoughSamples = 16

// took notes how long an exchange took.
func (l *link) took(d time.Duration) {
	if l.samples++; l.samples == 1 || d < l.shortest {
		l.shortest = d
	}
	if l.samples >= enoughSamples {
		l.roundTrip.Store(int64(l.shortest))
	}
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
