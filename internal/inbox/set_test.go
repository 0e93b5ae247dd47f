package inbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// events is a handler that keeps all messages.
type events struct {
	mu   sync.Mutex
	told []string
}

func (e *events) add(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told = append(e.told, fmt.Sprintf(format, args...))
}

func (e *events) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	told := e.told
	e.told = nil
	return told
}

func (e *events) Message(i int, m wire.Message) { e.add("message %d to %s", i, m.Waiter) }
func (e *events) Opened(i int)                  { e.add("opened %d", i) }
func (e *events) Lost(i int)                    { e.add("lost %d", i) }
func (e *events) Resubscribed(i int)            { e.add("resubscribed %d", i) }
func (e *events) Settled()                      { e.add("settled") }
func (e *events) CannotFollow(i int, err error) { e.add("cannot follow %d: %v", i, err) }

// listener is a node that lets a test send messages, and fails subscriptions on demand.
type listener struct {
	node.Node
	mu     sync.Mutex
	err    error
	tell   func(wire.Message)
	opened int
	closed int
}

func (l *listener) Listen(_ context.Context, _ string, _ bool, tell func(wire.Message)) (wire.Inbox, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	l.opened++
	l.tell = tell
	return l, nil
}

func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed++
	return nil
}

func (l *listener) send(m wire.Message) {
	l.mu.Lock()
	tell := l.tell
	l.mu.Unlock()
	tell(m)
}

func (l *listener) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func (l *listener) counts() (opened, closed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opened, l.closed
}

// refusing is a node that lets nobody follow Redisson.
type refusing struct {
	*listener
	reason error
}

func (r refusing) Listen(ctx context.Context, client string, follows bool, tell func(wire.Message)) (wire.Inbox, error) {
	if follows {
		return nil, &node.Error{Reason: r.reason}
	}
	return r.listener.Listen(ctx, client, false, tell)
}

// A client without the right to follow Redisson gets its own messages, and is told once. So is one of a server that does not
// have the command.
func TestRefusalToFollowIsReportedOnce(t *testing.T) {
	for _, reason := range []error{node.ErrAuth, node.ErrMisconfigured} {
		synctest.Test(t, func(t *testing.T) {
			l, e := &listener{}, &events{}
			s := New(clock.Process(), []node.Node{refusing{l, reason}}, "c", true, e)
			for range 2 {
				s.Use()
				synctest.Wait()
				s.Done()
				time.Sleep(linger)
				synctest.Wait()
			}
			l.send(wire.Message{Kind: wire.Woken, Waiter: "w"})
			refused := fmt.Sprintf("cannot follow 0: node : connect: %v", reason)
			require.Equal(t, []string{refused, "opened 0", "settled", "opened 0", "settled", "message 0 to w"}, e.take())
			s.Close()
		})
	}
}

func inSet(t *testing.T, test func(t *testing.T, s *Set, l *listener, e *events)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l, e := &listener{}, &events{}
		s := New(clock.Process(), []node.Node{l}, "c", false, e)
		test(t, s, l, e)
		s.Close()
		opened, closed := l.counts()
		require.Equal(t, opened, closed, "Close closes what was opened")
	})
}

func TestSubscriptionsAreOpenWhileTheyAreUsed(t *testing.T) {
	inSet(t, func(t *testing.T, s *Set, l *listener, e *events) {
		require.False(t, s.Open())
		s.Use()
		s.Use()
		synctest.Wait()
		require.Equal(t, []string{"opened 0", "settled"}, e.take())
		nodes, settled := s.Listening()
		require.True(t, settled)
		require.EqualValues(t, 1, nodes)

		s.Done()
		time.Sleep(2 * linger)
		require.True(t, s.Open(), "one user is left")
		s.Done()
		time.Sleep(linger - time.Second)
		s.Use()
		s.Done()
		time.Sleep(linger - time.Second)
		require.True(t, s.Open(), "a new user restarts the pause")
		time.Sleep(time.Second)
		synctest.Wait()
		require.False(t, s.Open())
		s.Use()
		synctest.Wait()
		opened, _ := l.counts()
		require.Equal(t, 2, opened)
	})
}

func TestFailedSubscriptionIsRetried(t *testing.T) {
	inSet(t, func(t *testing.T, s *Set, l *listener, e *events) {
		l.fail(errors.New("refused"))
		s.Use()
		synctest.Wait()
		require.Equal(t, []string{"settled"}, e.take(), "waiters know that no message will come")
		l.fail(nil)
		nodes, settled := s.Listening()
		require.Zero(t, nodes)
		require.True(t, settled, "no other try is due yet")
		time.Sleep(retryAfter)
		s.Listening()
		synctest.Wait()
		require.Equal(t, []string{"opened 0", "settled"}, e.take())
		s.Done()
	})
}

func TestLostSubscriptionIsReported(t *testing.T) {
	inSet(t, func(t *testing.T, s *Set, l *listener, e *events) {
		s.Use()
		synctest.Wait()
		e.take()
		l.send(wire.Message{Kind: wire.Woken, Waiter: "w"})
		l.send(wire.Message{Kind: wire.Lost})
		nodes, _ := s.Listening()
		require.Zero(t, nodes)
		l.send(wire.Message{Kind: wire.Resubscribed})
		nodes, _ = s.Listening()
		require.EqualValues(t, 1, nodes)
		l.send(wire.Message{Kind: wire.Lost})
		require.Equal(t, []string{"message 0 to w", "lost 0", "resubscribed 0", "lost 0"}, e.take())

		s.Done()
		time.Sleep(linger)
		synctest.Wait()
		require.False(t, s.Open())
		l.send(wire.Message{Kind: wire.Lost})
		require.Empty(t, e.take(), "a subscription that was closed has nothing more to say")
		s.Use()
		synctest.Wait()
		nodes, _ = s.Listening()
		require.EqualValues(t, 1, nodes, "the next one is not lost")
	})
}
