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

// Do carries out the operations one after the other, and sets their replies.
func (s *Scripts) Do(ops []wire.Op, replies []wire.Reply) {
	for _, r := range spans(nil, ops) {
		part, answers := ops[r.from:r.to], replies[r.from:r.to]
		decodeMessages(part, s.run(part), answers)
		for i, a := range answers {
			if a.Err != nil {
				answers[i].Err = newError(s.name, part[i].Kind, reasonOf(a.Err), a.Err)
			}
		}
	}
}

// run runs the script for operations. If the server does not have it, the script follows in full.
func (s *Scripts) run(ops []wire.Op) rueidis.RedisMessage {
	s.writer.packer = msgpackWriter{} // the server may have kept a part of its last text
	c := s.writer.call(ops)
	args := make([]string, 0, 4+len(c.keys)+len(s.writer.args))
	args = append(args, "EVALSHA", c.script.sha, strconv.Itoa(c.numKeys()))
	if c.pool != "" {
		args = append(args, c.pool)
	}
	args = append(append(args, c.keys...), s.writer.args...)
	reply := s.server(args...)
	if err, ok := rueidis.IsRedisErr(reply.Error()); ok && err.IsNoScript() {
		args[0], args[1] = "EVAL", c.script.source
		reply = s.server(args...)
	}
	return reply
}
