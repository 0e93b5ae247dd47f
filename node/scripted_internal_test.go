package node

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/mock"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/redislua"
)

// Scripted is an in-memory node that runs the scripts themselves, through the commands and the decoding of a Redis
// node. Its inboxes are those of [Memory].
type Scripted struct {
	*Memory
	Server *redislua.Server
	writer writer
}

// NewScripted makes an empty node on a clock.
func NewScripted(c clock.Clock) *Scripted {
	s := &Scripted{Memory: NewMemory("scripted", c)}
	s.Server = redislua.New(s)
	s.writer.place = placeOf(s.Replication())
	return s
}

// Micros implements [redislua.Host].
func (s *Scripted) Micros() int64 { return s.time() }

// Identity implements [Node]. It has the length of a server's.
func (s *Scripted) Identity() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replicationID()
}

func (s *Scripted) replicationID() string {
	return (strings.ToLower(s.identity) + strings.Repeat("0", 40))[:40]
}

// Replication implements [redislua.Host].
func (s *Scripted) Replication() string {
	return "# Replication\r\nrole:master\r\nconnected_slaves:0\r\nmaster_failover_state:no-failover\r\nmaster_replid:" + s.replicationID() + "\r\n"
}

// Publish implements [redislua.Host].
func (s *Scripted) Publish(channel, text string) int {
	if client, ok := strings.CutPrefix(channel, inboxPrefix); ok {
		received := 0
		for b := range s.inboxes {
			if b.client == client && !b.lost {
				received++
				if message, ok := decodeMessage(text); ok {
					b.add(message)
				}
			}
		}
		return received
	}
	for _, name := range redissonNames(channel) {
		if redissonChannel(name) == channel {
			for b := range s.inboxes {
				if _, followed := b.followed[name]; followed && !b.lost {
					b.add(Message{Kind: Announced, Name: name})
				}
			}
		}
	}
	return 0
}

// Do implements [Node].
func (s *Scripted) Do(ctx context.Context, ops []Op, replies []Reply) {
	if err := s.ready(ctx); err != nil {
		failAll(s.name, ops, replies, err, nil, !errors.Is(err, ErrTimeout))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writer.packer.clear()
	for _, r := range spans(nil, ops) {
		s.exchange(ops[r.from:r.to], replies[r.from:r.to])
	}
}

func (s *Scripted) exchange(ops []Op, replies []Reply) {
	reply := s.run(evalsha(mock.NewClient(nil).B(), &s.writer, ops))
	if reply.Kind == redislua.Error && strings.HasPrefix(reply.Text, "NOSCRIPT") {
		reply = s.run(eval(mock.NewClient(nil).B(), &s.writer, ops))
	}
	decodeAll(ops, mock.Result(message(reply)), replies)
	for i, r := range replies {
		if r.Err != nil {
			replies[i].Err = newError(s.name, ops[i].Kind, reasonOf(r.Err), r.Err)
		}
	}
}

func (s *Scripted) run(c rueidis.Completed) redislua.Value { return s.Server.Do(own(c.Commands())...) }

// own copies the arguments of a command, whose memory the next command uses.
func own(args []string) []string {
	args = slices.Clone(args)
	for i := range args {
		args[i] = strings.Clone(args[i])
	}
	return args
}

// message makes the message that rueidis makes of a reply.
func message(v redislua.Value) rueidis.RedisMessage {
	switch v.Kind {
	case redislua.Integer:
		return mock.RedisInt64(v.Int)
	case redislua.Bulk:
		return mock.RedisBlobString(v.Text)
	case redislua.Status:
		return mock.RedisString(v.Text)
	case redislua.Error:
		return mock.RedisError(v.Text)
	case redislua.Array:
		items := make([]rueidis.RedisMessage, len(v.Items))
		for i, item := range v.Items {
			items[i] = message(item)
		}
		return mock.RedisArray(items...)
	default:
		return mock.RedisNil()
	}
}

// Plant puts a key that is not a lock.
func (s *Scripted) Plant(name string) { s.command("SET", name, "not a lock") }

// Forget removes all keys.
func (s *Scripted) Forget() { s.command("FLUSHALL") }

// Locks lists the names that are held.
func (s *Scripted) Locks() []string {
	names := []string{}
	for _, key := range s.command("KEYS", "*").Items {
		if !strings.HasPrefix(key.Text, "quorumlock:") && s.command("TYPE", key.Text).Text == "hash" {
			names = append(names, key.Text)
		}
	}
	slices.Sort(names)
	return names
}

func (s *Scripted) command(args ...string) redislua.Value {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Server.Do(args...)
}
