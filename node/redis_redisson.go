package node

import (
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// followState is the state of a lock that an inbox follows, or is about to follow.
type followState struct {
	// done is closed when the server has answered, or no longer can; err is the result.
	done chan struct{}
	err  error
}

// pendingReply is a command on a subscription's connection that the server has not answered yet. Answers come
// in the order of the commands, one for each.
type pendingReply struct {
	verb, name string
	following  *followState
}

// Follow implements [wire.Follower].
func (b *redisInbox) Follow(name string) error {
	b.mu.Lock()
	f, s := b.followed[name], b.current
	switch {
	case b.ctx.Err() != nil:
		b.mu.Unlock()
		return b.closed()
	case f == nil && s == nil:
		b.mu.Unlock()
		return b.lost()
	case f == nil:
		f = &followState{done: make(chan struct{})}
		b.followed[name] = f
		s.request(pendingReply{"SUBSCRIBE", name, f}, wire.RedissonChannel(name))
	}
	b.mu.Unlock()
	<-f.done
	return f.err
}

// Unfollow implements [wire.Follower].
func (b *redisInbox) Unfollow(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.followed[name] == nil {
		return
	}
	delete(b.followed, name)
	if b.current != nil {
		b.current.unsubscribe(wire.RedissonChannel(name))
	}
}

func (b *redisInbox) lost() error {
	return &Error{Node: b.node.name, Reason: ErrUnreachable, Err: errLost}
}

// channels returns the channels to subscribe to: the inbox's own first.
func (b *redisInbox) channels() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	channels := []string{b.channel}
	for name := range b.followed {
		if channel := wire.RedissonChannel(name); !slices.Contains(channels[1:], channel) {
			channels = append(channels, channel)
		}
	}
	return channels
}

// setCurrent makes s the current subscription. It unsubscribes from locks that were followed when s was made,
// and no longer are.
func (b *redisInbox) setCurrent(s *subscription, channels []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = s
	for _, channel := range channels[1:] {
		s.unsubscribe(channel)
	}
}

// clearCurrent closes a subscription. Its pending replies fail.
func (b *redisInbox) clearCurrent(s *subscription) {
	s.close()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = nil
	for _, r := range s.requests {
		b.finishRequest(r, errLost)
	}
	s.requests = nil
}

// finishRequest ends a request. Requires b.mu.
func (b *redisInbox) finishRequest(r pendingReply, err error) {
	if r.following == nil {
		return
	}
	if err != nil {
		if b.followed[r.name] == r.following {
			delete(b.followed, r.name)
		}
		r.following.err = newError(b.node.name, 0, reasonOf(err), err)
		if b.ctx.Err() != nil {
			r.following.err = b.closed()
		}
	}
	close(r.following.done)
}

// announced returns the followed locks of a channel.
func (b *redisInbox) announced(channel string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(wire.RedissonNames(channel), func(name string) bool { return b.followed[name] == nil })
}

// request sends a command with at most one channel. If it cannot, the connection is unusable, and its reader
// ends the request. Requires the inbox's mu.
func (s *subscription) request(r pendingReply, args ...string) {
	s.requests = append(s.requests, r)
	_ = s.conn.SetWriteDeadline(deadline(s.inbox.node.opt.ConnWriteTimeout))
	if s.send(append([]string{r.verb}, args...)) != nil {
		_ = s.conn.Close()
	}
}

// unsubscribe leaves a channel, unless one of its locks is still followed. Requires the inbox's mu.
func (s *subscription) unsubscribe(channel string) {
	for _, name := range wire.RedissonNames(channel) {
		if s.inbox.followed[name] != nil {
			return
		}
	}
	s.request(pendingReply{verb: "UNSUBSCRIBE"}, channel)
}

// onReply ends the first request. A reply to any other request ends the connection.
func (s *subscription) onReply(verb string) {
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	switch {
	case len(s.requests) == 0: // a reply without a request
	case s.requests[0].verb != verb:
		_ = s.conn.Close()
	default:
		s.inbox.finishRequest(s.requests[0], nil)
		s.requests = s.requests[1:]
	}
}

// onError ends the first request, and reports whether the server may refuse it. A user without the right to
// unsubscribe keeps getting messages, which are ignored.
func (s *subscription) onError(err error) bool {
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	if len(s.requests) == 0 || s.requests[0].verb == "PING" {
		return false
	}
	if reasonOf(err) == ErrAuth { //nolint:errorlint // a reason is never wrapped
		err = fmt.Errorf("following a lock needs the rights +subscribe and &%s*: %w", wire.RedissonPrefix, err)
	}
	s.inbox.finishRequest(s.requests[0], err)
	s.requests = s.requests[1:]
	return true
}
