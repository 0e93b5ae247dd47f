// Package redislua runs Lua scripts on a keyspace in memory, as a Redis server does: with its commands, its replies,
// its expiry, its errors, and the differences between its Lua and others.
//
// It exists so that tests in virtual time run the scripts that servers run, and not a copy of their rules. The caller
// controls everything that a server takes from outside: the clock, the answer to INFO, the subscribers, and whether
// memory is left. A differential test in package node compares it with a real server.
//
// It knows the commands that the scripts of this module use, and answers any other with an error.
package redislua

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/quorumlock/quorumlock/internal/redislua/lua"
)

// Server is a keyspace, and the commands and scripts that run on it. It is not safe for concurrent use.
type Server struct {
	host Host
	// Full makes the server refuse commands that need memory, as one at its maxmemory does.
	Full bool

	keys    keyspace
	machine lua.Machine
	// globals are the global variables of the last script: the library, KEYS and ARGV.
	globals map[string]lua.Value
	// args has the arguments of the last command of a script, whose memory serves for the next one.
	args []string
	// declared has the KEYS of the script under way.
	declared map[string]struct{}
	// loaded has the scripts that this server has run, by their digests.
	loaded map[string]*script
	// wrote is set once the script under way has changed a key. From then on, it needs no more memory in Redis' eyes.
	wrote bool
}

// Host is what a server takes from outside. Its methods must not use the server.
type Host interface {
	// Micros is the time of the server's clock, in microseconds since 1970.
	Micros() int64
	// Replication is the answer to INFO replication.
	Replication() string
	// Publish sends a message, and returns how many subscribers have received it.
	Publish(channel, message string) int
}

// New makes an empty server.
func New(host Host) *Server {
	s := &Server{host: host, keys: keyspace{}, declared: make(map[string]struct{}), loaded: make(map[string]*script)}
	s.globals = s.library()
	return s
}

// Snapshot is the data of a server at one moment.
type Snapshot struct{ keys keyspace }

// Snapshot copies all keys, with the times of their ends.
func (s *Server) Snapshot() Snapshot { return Snapshot{s.keys.clone()} }

// Restore replaces all keys. The zero Snapshot has none. A server that restarts also forgets its scripts.
func (s *Server) Restore(from Snapshot) {
	s.keys = from.keys.clone()
	clear(s.loaded)
}

// Trace is told each command before it runs, also those of scripts, if a test sets it.
var Trace func(command []string)

// Do runs one command.
func (s *Server) Do(args ...string) Value {
	s.wrote = false
	return s.run(args)
}

type command struct {
	run func(s *Server, args []string) Value
	// least is the minimum of arguments, with the name of the command.
	least int
	// needs is the type that the first key must have, if it exists; 0 if it may have any.
	needs byte
	// grows is set for commands that a server without memory refuses.
	grows bool
}

// commands has the commands that a script may call.
var commands = map[string]command{
	"DEL":      {run: (*Server).del, least: 2},
	"EXISTS":   {run: (*Server).exists, least: 2},
	"FLUSHALL": {run: (*Server).flush, least: 1},
	"GETRANGE": {run: (*Server).getRange, least: 4, needs: textKey},
	"HDEL":     {run: removal((*key).removeField), least: 3, needs: hashKey},
	"HGET":     {run: (*Server).hget, least: 3, needs: hashKey},
	"HGETALL":  {run: (*Server).hgetall, least: 2, needs: hashKey},
	"HKEYS":    {run: (*Server).hkeys, least: 2, needs: hashKey},
	"HMGET":    {run: (*Server).hmget, least: 3, needs: hashKey},
	"HSET":     {run: (*Server).hset, least: 4, needs: hashKey, grows: true},
	"INFO":     {run: (*Server).info, least: 1},
	"KEYS":     {run: (*Server).allKeys, least: 2},
	"PEXPIRE":  {run: (*Server).pexpire, least: 3},
	"PTTL":     {run: (*Server).pttl, least: 2},
	"PUBLISH":  {run: (*Server).publish, least: 3},
	"SET":      {run: (*Server).set, least: 3, grows: true},
	"SETRANGE": {run: (*Server).setRange, least: 4, needs: textKey, grows: true},
	"TIME":     {run: (*Server).time, least: 1},
	"TYPE":     {run: (*Server).typeOf, least: 2},
	"ZADD":     {run: (*Server).zadd, least: 4, needs: sortedSet, grows: true},
	"ZCARD":    {run: (*Server).zcard, least: 2, needs: sortedSet},
	"ZRANGE":   {run: (*Server).zrange, least: 4, needs: sortedSet},
	"ZRANK":    {run: (*Server).zrank, least: 3, needs: sortedSet},
	"ZREM":     {run: removal((*key).remove), least: 3, needs: sortedSet},
	"ZSCORE":   {run: (*Server).zscore, least: 3, needs: sortedSet},
}

const (
	errSyntax    = "ERR syntax error"
	errInteger   = "ERR value is not an integer or out of range"
	errFloat     = "ERR value is not a valid float"
	errWrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errMemory    = "OOM command not allowed when used memory > 'maxmemory'."
	errNoScript  = "NOSCRIPT No matching script. Please use EVAL."
)

func (s *Server) run(args []string) Value {
	if Trace != nil {
		Trace(args)
	}
	switch name := strings.ToUpper(args[0]); name {
	case "EVAL", "EVALSHA":
		return s.eval(name, args)
	default:
		c, known := commands[name]
		switch {
		case !known:
			return failure("ERR unknown command '" + args[0] + "'")
		case len(args) < c.least:
			return failure("ERR wrong number of arguments for '" + strings.ToLower(name) + "' command")
		case c.grows && s.Full && !s.wrote:
			return failure(errMemory)
		}
		if c.needs != 0 {
			if k := s.key(args[1]); k != nil && k.kind != c.needs {
				return failure(errWrongType)
			}
		}
		return c.run(s, args)
	}
}

func (s *Server) eval(verb string, args []string) Value {
	n, _ := strconv.Atoi(args[2]) // callers count their keys
	var called *script
	if verb == "EVAL" {
		var err error
		if called, err = compile(args[1]); err != nil {
			return failure("ERR Error compiling script (new function): " + err.Error())
		}
		s.loaded[called.digest] = called
	} else if called = s.loaded[strings.ToLower(args[1])]; called == nil {
		return failure(errNoScript)
	}
	return s.runScript(called, args[3:3+n], args[3+n:])
}

func (s *Server) millis() int64 { return s.host.Micros() / 1000 }

// key returns a key that is not past its end, or nil.
func (s *Server) key(name string) *key {
	k := s.keys[name]
	if k != nil && k.ends != 0 && s.millis() > k.ends {
		delete(s.keys, name)
		return nil
	}
	return k
}

// writable returns a key to write to, and makes it if absent.
func (s *Server) writable(name string, kind byte) *key {
	s.wrote = true
	k := s.key(name)
	if k == nil {
		k = newKey(kind)
		s.keys[name] = k
	}
	return k
}

// removal is a command that removes elements from a key.
func removal(remove func(k *key, name string) bool) func(*Server, []string) Value {
	return func(s *Server, args []string) Value {
		k, removed := s.key(args[1]), 0
		for _, name := range args[2:] {
			if k != nil && remove(k, name) {
				removed++
			}
		}
		return s.changed(args[1], k, removed)
	}
}

// changed notes a removal from a key, and removes the key with its last element.
func (s *Server) changed(name string, k *key, removed int) Value {
	if removed > 0 {
		s.wrote = true
	}
	if k != nil && k.isEmpty() {
		delete(s.keys, name)
	}
	return integer(removed)
}

func (s *Server) del(args []string) Value {
	n := 0
	for _, name := range args[1:] {
		if s.key(name) != nil {
			delete(s.keys, name)
			n++
		}
	}
	return s.changed("", nil, n)
}

func (s *Server) exists(args []string) Value {
	n := 0
	for _, name := range args[1:] {
		if s.key(name) != nil {
			n++
		}
	}
	return integer(n)
}

func (s *Server) flush([]string) Value {
	clear(s.keys)
	return status("OK")
}

func (s *Server) info([]string) Value { return bulk(s.host.Replication()) }

func (s *Server) time([]string) Value {
	now := s.host.Micros()
	return bulks(strconv.FormatInt(now/1_000_000, 10), strconv.FormatInt(now%1_000_000, 10))
}

func (s *Server) publish(args []string) Value { return integer(s.host.Publish(args[1], args[2])) }

// allKeys lists all keys, whatever the pattern.
func (s *Server) allKeys([]string) Value {
	names := make([]string, 0, len(s.keys))
	for name := range s.keys {
		if s.key(name) != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return bulks(names...)
}

func (s *Server) typeOf(args []string) Value {
	k := s.key(args[1])
	if k == nil {
		return status("none")
	}
	return status(map[byte]string{hashKey: "hash", sortedSet: "zset", textKey: "string"}[k.kind])
}

func (s *Server) pttl(args []string) Value {
	k := s.key(args[1])
	switch {
	case k == nil:
		return integer(-2)
	case k.ends == 0:
		return integer(-1)
	default:
		return Value{Kind: Integer, Int: k.ends - s.millis()}
	}
}

func (s *Server) pexpire(args []string) Value {
	ms, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return failure(errInteger)
	}
	k := s.key(args[1])
	if k == nil {
		return integer(0)
	}
	s.wrote = true
	k.ends = s.millis() + ms
	if ms <= 0 {
		delete(s.keys, args[1])
	}
	return integer(1)
}

func (s *Server) set(args []string) Value {
	k := newKey(textKey)
	k.text.write(0, args[2])
	if len(args) == 5 { // with PX
		ms, err := strconv.ParseInt(args[4], 10, 64)
		if err != nil || ms <= 0 {
			return failure("ERR invalid expire time in 'set' command")
		}
		k.ends = s.millis() + ms
	}
	s.wrote = true
	s.keys[args[1]] = k
	return status("OK")
}

func (s *Server) getRange(args []string) Value {
	from, err1 := strconv.Atoi(args[2])
	to, err2 := strconv.Atoi(args[3])
	if cmp.Or(err1, err2) != nil {
		return failure(errInteger)
	}
	k := s.key(args[1])
	if k == nil {
		return bulk("")
	}
	n := k.text.length
	if from < 0 && to < 0 && from > to {
		return bulk("")
	}
	if from < 0 {
		from = max(n+from, 0)
	}
	if to < 0 {
		to = max(n+to, 0)
	}
	to = min(to, n-1)
	if from > to || n == 0 {
		return bulk("")
	}
	return bulk(k.text.read(from, to+1))
}

func (s *Server) setRange(args []string) Value {
	at, err := strconv.Atoi(args[2])
	if err != nil || at < 0 || args[3] == "" { // no script does so
		return failure(errInteger)
	}
	k := s.writable(args[1], textKey)
	k.text.write(at, args[3])
	return integer(k.text.length)
}
