package goredis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/node"
)

// rotate changes the password of the user, and ends its connections, as managed services do when a token expires.
func rotate(t *testing.T, s *redisproc.Server, password string) {
	t.Helper()
	_, err := s.Command("ACL", "SETUSER", "locker", "resetpass", ">"+password)
	require.NoError(t, err)
	_, err = s.Command("CLIENT", "KILL", "USER", "locker")
	require.NoError(t, err)
}

func locker(t *testing.T) *redisproc.Server {
	t.Helper()
	return start(t, redisproc.WithACL("user locker on >first ~* &* +@all"))
}

// A lease survives that the password of its client changes, and so does the subscription of the waiters.
func TestRotatedPassword(t *testing.T) {
	t.Parallel()
	var password atomic.Value
	password.Store("first")
	for what, opt := range map[string]redis.Options{
		"provider": {CredentialsProvider: func() (string, string) { return "locker", password.Load().(string) }},
		"provider with a context": {
			CredentialsProviderContext: func(ctx context.Context) (string, string, error) {
				if _, bounded := ctx.Deadline(); !bounded {
					return "", "", errors.New("unbounded")
				}
				return "locker", password.Load().(string), nil
			},
			CredentialsProvider: func() (string, string) { return "overruled", "" },
		},
	} {
		t.Run(what, func(t *testing.T) {
			password.Store("first")
			s := locker(t)
			opt.Addr, opt.Username, opt.Password = s.Addr(), "overruled", "too"
			n, err := New(&opt)
			one := client(t, closing(t, n, err))
			n2, err := New(&opt)
			other := client(t, closing(t, n2, err))
			lease := hold(t, one, "kept")
			handOn(t, s, one, other, "handed on")

			password.Store("second")
			rotate(t, s, "second")
			require.NoError(t, lease.Extend(t.Context()))
			handOn(t, s, one, other, "handed on")

			// The server refuses the password of before, and the error says so.
			rotate(t, s, "third")
			_, err = other.RedLock("refused").TryAcquire(t.Context())
			require.ErrorIs(t, err, node.ErrAuth)
			password.Store("third")
			require.Eventually(t, func() bool { return lease.Extend(t.Context()) == nil }, patience, 10*time.Millisecond)
		})
	}
}

// A provider that fails makes the node fail, until the provider answers.
func TestProviderThatFails(t *testing.T) {
	t.Parallel()
	s := locker(t)
	outage := errors.New("no token today")
	var out atomic.Bool
	out.Store(true)
	n, err := New(&redis.Options{Addr: s.Addr(), CredentialsProviderContext: func(context.Context) (string, string, error) {
		if out.Load() {
			return "", "", outage
		}
		return "locker", "first", nil
	}})
	n = closing(t, n, err)
	err = n.Probe(t.Context())
	require.ErrorIs(t, err, outage)
	require.ErrorIs(t, err, node.ErrUnreachable)
	out.Store(false)
	require.NoError(t, n.Probe(t.Context()))
}

// stream is a provider whose credentials the test changes.
type stream struct {
	mu        sync.Mutex
	password  string
	refuses   error
	listeners map[auth.CredentialsListener]bool
	ended     int
}

func (s *stream) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuses != nil {
		return nil, nil, s.refuses
	}
	if s.listeners == nil {
		s.listeners = make(map[auth.CredentialsListener]bool)
	}
	s.listeners[l] = true
	return auth.NewBasicCredentials("locker", s.password), func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, l)
		s.ended++
		return nil
	}, nil
}

func (s *stream) change(password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.password = password
	for l := range s.listeners {
		l.OnNext(auth.NewBasicCredentials("locker", password))
	}
}

func (s *stream) set(refuses error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses = refuses
}

func (s *stream) count() (listeners, ended int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.listeners), s.ended
}

func TestStreamingCredentials(t *testing.T) {
	t.Parallel()
	s := locker(t)
	outage := errors.New("no identity today")
	tokens := &stream{password: "first", refuses: outage}
	n, err := New(&redis.Options{Addr: s.Addr(), StreamingCredentialsProvider: tokens})
	n = closing(t, n, err)
	require.ErrorIs(t, n.Probe(t.Context()), outage)

	tokens.set(nil)
	c := client(t, n)
	lease := hold(t, c, "kept")
	tokens.change("second")
	rotate(t, s, "second")
	require.NoError(t, lease.Extend(t.Context()))
	listeners, _ := tokens.count()
	assert.Equal(t, 1, listeners, "one subscription serves all connections of the node")

	require.NoError(t, lease.Release(t.Context()))
	require.NoError(t, c.Close(t.Context()))
	require.NoError(t, n.Close())
	require.NoError(t, n.Close())
	listeners, ended := tokens.count()
	assert.Zero(t, listeners)
	assert.Equal(t, 1, ended)
	require.ErrorIs(t, n.Probe(t.Context()), node.ErrClosed)
}
