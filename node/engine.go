package node

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/clock"
)

// Engine runs the commands of Redis within the process, scripts too. A [Memory] calls it under its mutex.
type Engine interface {
	// Do runs one command.
	Do(args ...string) rueidis.RedisMessage
	// Save keeps a copy of all keys. restore brings it back, in the place of all keys of that time.
	Save() (restore func())
}

// Host is what an [Engine] takes from outside.
type Host interface {
	// Micros is the time of the node's clock, in microseconds since 1970.
	Micros() int64
	// Replication is the answer to INFO replication.
	Replication() string
	// Publish sends a message, and returns how many subscribers have received it.
	Publish(channel, message string) int
}

// NewMemoryOn makes an empty in-memory node whose operations are run by an engine. Package memory has one.
func NewMemoryOn(name string, c clock.Clock, engine func(Host) Engine) *Memory {
	m := NewMemory(name, c)
	m.renewIdentity()
	m.engine = engine((*memoryHost)(m))
	m.restore = m.engine.Save()
	m.writer.place = placeOf((*memoryHost)(m).Replication())
	return m
}

// renewIdentity gives the node another identity, in the form of a server's.
func (m *Memory) renewIdentity() {
	id := make([]byte, 20)
	_, _ = rand.Read(id) // never fails
	m.identity = hex.EncodeToString(id)
}

// memoryHost is a [Memory] as its engine sees it. Its methods require the node's mu.
type memoryHost Memory

func (h *memoryHost) Micros() int64 { return (*Memory)(h).time() }

func (h *memoryHost) Replication() string {
	return "# Replication\r\nrole:master\r\nconnected_slaves:0\r\nmaster_failover_state:no-failover\r\nmaster_replid:" + h.identity + "\r\n"
}

func (h *memoryHost) Publish(channel, text string) (received int) {
	client, toInbox := strings.CutPrefix(channel, inboxPrefix)
	if !toInbox {
		for _, name := range redissonNames(channel) {
			(*Memory)(h).tellFollowers(name)
		}
		return 0
	}
	m, ok := decodeMessage(text)
	for b := range h.inboxes {
		if b.client != client || b.lost {
			continue
		}
		received++
		if ok {
			b.add(m)
		}
	}
	return received
}

// runScripts carries out operations by their scripts. Requires m.mu.
func (m *Memory) runScripts(ops []Op, replies []Reply) {
	m.writer.packer.clear()
	for _, r := range spans(nil, ops) {
		part, answers := ops[r.from:r.to], replies[r.from:r.to]
		c := m.writer.call(part)
		result := m.eval("EVALSHA", c.script.sha, c)
		if err, ok := rueidis.IsRedisErr(result.Error()); ok && err.IsNoScript() {
			result = m.eval("EVAL", c.script.source, c)
		}
		decodeMessages(part, result, answers)
		for i, a := range answers {
			if a.Err != nil {
				answers[i].Err = newError(m.name, part[i].Kind, reasonOf(a.Err), a.Err)
			}
		}
	}
}

// eval runs a script. It copies the arguments, since the engine may keep parts of them, and the writer uses their
// memory again.
func (m *Memory) eval(verb, script string, c call) rueidis.RedisMessage {
	args := []string{verb, script, strconv.Itoa(c.numKeys())}
	if c.pool != "" {
		args = append(args, c.pool)
	}
	args = append(args, c.keys...)
	for _, arg := range m.writer.args {
		args = append(args, strings.Clone(arg))
	}
	return m.engine.Do(args...)
}

// locksOfEngine lists the locks among the keys of the engine. Requires m.mu.
func (m *Memory) locksOfEngine() []string {
	names := []string{}
	reply := m.engine.Do("KEYS", "*")
	keys, _ := reply.AsStrSlice()
	for _, key := range keys {
		kind := m.engine.Do("TYPE", key)
		if text, _ := kind.ToString(); text == "hash" && !strings.HasPrefix(key, "quorumlock:") {
			names = append(names, key)
		}
	}
	return names
}
