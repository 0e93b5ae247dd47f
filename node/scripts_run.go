package node

import (
	"strconv"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// Scripts carries out operations on a server within the process, as package memory has one. It makes the commands that a
// [redisNode] sends, and decodes the replies as a Redis does. It is not safe for concurrent use.
type Scripts struct {
	name   string
	server func(args ...string) rueidis.RedisMessage
	writer writer
}

// NewScripts makes the Scripts of the node with this name. server runs one command, and may keep its arguments.
func NewScripts(name string, server func(args ...string) rueidis.RedisMessage) *Scripts {
	s := &Scripts{name: name, server: server}
	reply := server("INFO", "replication")
	info, _ := reply.ToString()
	s.writer.place = placeOf(info)
	return s
}

// Do carries out the operations one after the other, and sets their replies. It calls between before it runs some of them
// again, when a server runs what others have sent meanwhile. If that returns an error, the rest fails with it.
func (s *Scripts) Do(ops []wire.Op, replies []wire.Reply, between func() error) {
	ranges := spans(nil, ops)
	s.round(ranges, ops, replies)
	for again := unfinished(ranges, ops, replies); again != nil; again = unfinished(again, ops, replies) {
		if err := between(); err != nil {
			failRanges(again, replies, err)
			break
		}
		s.round(again, ops, replies)
	}
	for i, r := range replies {
		if r.Err != nil {
			replies[i].Err = newError(s.name, ops[i].Kind, reasonOf(r.Err), r.Err)
		}
	}
}

// round runs one script for each range of the operations.
func (s *Scripts) round(spans []opRange, ops []wire.Op, replies []wire.Reply) {
	for _, r := range spans {
		s.writer.whole = r.whole
		s.writer.decodeMessage(ops[r.from:r.to], s.run(ops[r.from:r.to]), replies[r.from:r.to])
	}
}

// run runs the script for operations. If the server does not have it, the script follows in full.
func (s *Scripts) run(ops []wire.Op) rueidis.RedisMessage {
	s.writer.packer = msgpackWriter{} // the server may have kept a part of its last text
	script, w := s.writer.call(ops), &s.writer
	args := append(append([]string{"EVALSHA", script.sha, strconv.Itoa(len(w.keys))}, w.keys...), w.args...)
	reply := s.server(args...)
	if err, ok := rueidis.IsRedisErr(reply.Error()); ok && err.IsNoScript() {
		args[0], args[1] = "EVAL", script.source
		reply = s.server(args...)
	}
	return reply
}
