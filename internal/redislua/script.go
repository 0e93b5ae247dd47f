package redislua

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1.
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/quorumlock/quorumlock/internal/redislua/lua"
)

// script is a script with its digest.
type script struct {
	digest string
	*lua.Script
}

// scripts has all scripts by their texts.
var scripts sync.Map

func compile(source string) (*script, error) {
	if known, ok := scripts.Load(source); ok {
		return known.(*script), nil
	}
	compiled, err := lua.Compile(source)
	if err != nil {
		return nil, err
	}
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
	s := &script{hex.EncodeToString(sum[:]), compiled}
	scripts.Store(source, s)
	return s, nil
}

// library returns the global variables of all scripts, which none can change.
func (s *Server) library() map[string]lua.Value {
	library := lua.Library()
	library["pcall"] = lua.Native(func(args []lua.Value) []lua.Value { return withText(lua.PCall(args)) })
	redis, cmsgpack := lua.NewTable(), lua.NewTable()
	redis.Set("call", lua.Native(func(args []lua.Value) []lua.Value { return s.call(args, true) }))
	redis.Set("pcall", lua.Native(func(args []lua.Value) []lua.Value { return s.call(args, false) }))
	redis.Set("error_reply", lua.Native(func(args []lua.Value) []lua.Value {
		if len(args) == 1 {
			if text, ok := args[0].(string); ok {
				return []lua.Value{errorTable(text)}
			}
		}
		return []lua.Value{errorTable("wrong number or type of arguments")}
	}))
	cmsgpack.Set("unpack", lua.Native(unpackMessage))
	library["redis"], library["cmsgpack"] = redis, cmsgpack
	return library
}

// withText replaces the table of an error that pcall caught by the text in it, as Redis does for old scripts.
func withText(results []lua.Value) []lua.Value {
	if results[0] == false {
		if t, ok := results[1].(*lua.Table); ok {
			if text, ok := t.Get("err").(string); ok {
				results[1] = text
			}
		}
	}
	return results
}

func (s *Server) runScript(called *script, keys, args []string) Value {
	clear(s.declared)
	for _, key := range keys {
		s.declared[key] = struct{}{}
	}
	s.globals["KEYS"], s.globals["ARGV"] = texts(keys), texts(args)
	result, err := s.machine.Run(called.Script, s.globals)
	if err == nil {
		return replyOf(result)
	}
	text := "ERR " + err.Error()
	if raised := new(lua.Error); errors.As(err, &raised) {
		if t, ok := raised.Value.(*lua.Table); ok {
			text, _ = lua.Text(t.Get("err"))
		}
	}
	return failure(text + " script: " + called.digest + ", on @user_script.")
}

// call is redis.call, which raises the error of a command, and redis.pcall, which returns it.
func (s *Server) call(values []lua.Value, raise bool) []lua.Value {
	args := s.args[:0]
	reply := Value{}
	for _, v := range values {
		switch v := v.(type) {
		case string:
			args = append(args, v)
		case float64:
			args = append(args, lua.NumberText(v, 17))
		default:
			reply = failure("ERR Lua redis lib command arguments must be strings or integers")
		}
	}
	switch {
	case reply.Kind == Error:
	case len(args) == 0:
		reply = failure("ERR Please specify at least one argument for this redis.call() call")
	case strings.HasPrefix(strings.ToUpper(args[0]), "EVAL"):
		reply = failure("ERR This Redis command is not allowed from script")
	default:
		s.requireDeclared(args)
		reply = s.run(args)
	}
	s.args = args
	v := valueOf(reply)
	if raise && reply.Kind == Error {
		lua.Raise(v)
	}
	return []lua.Value{v}
}

// requireDeclared panics if a script uses a key that is not among its KEYS. Redis would let it pass. Dragonfly, clusters and
// proxies may refuse it, and a script that runs under pcall would hide their refusal from a test.
func (s *Server) requireDeclared(args []string) {
	var keys []string
	switch strings.ToUpper(args[0]) {
	case "INFO", "TIME", "PUBLISH":
	case "DEL", "EXISTS":
		keys = args[1:]
	default:
		keys = args[1:min(2, len(args))]
	}
	for _, key := range keys {
		if _, declared := s.declared[key]; !declared {
			panic(fmt.Sprintf("redislua: the script runs %s on the key %q, which is not among its KEYS", args[0], key))
		}
	}
}

func errorTable(text string) *lua.Table {
	t := lua.NewTable()
	t.Set("err", text)
	return t
}

func texts(list []string) *lua.Table {
	values := make([]lua.Value, len(list))
	for i, text := range list {
		values[i] = text
	}
	return lua.NewTable(values...)
}

// valueOf is what a script gets for a reply: false for nil.
func valueOf(v Value) lua.Value {
	switch v.Kind {
	case Integer:
		return float64(v.Int)
	case Bulk:
		return v.Text
	case Status:
		t := lua.NewTable()
		t.Set("ok", v.Text)
		return t
	case Error:
		return errorTable(v.Text)
	case Array:
		values := make([]lua.Value, len(v.Items))
		for i, item := range v.Items {
			values[i] = valueOf(item)
		}
		return lua.NewTable(values...)
	default:
		return false
	}
}

// replyOf is the reply for the value that a script returns. A number loses its fraction, and a table ends before its
// first nil.
func replyOf(v lua.Value) Value {
	switch v := v.(type) {
	case float64:
		return Value{Kind: Integer, Int: int64(v)}
	case string:
		return bulk(v)
	case bool:
		if v {
			return integer(1)
		}
		return Value{}
	case *lua.Table:
		if text, ok := v.Get("err").(string); ok {
			return failure(text)
		}
		if text, ok := v.Get("ok").(string); ok {
			return status(text)
		}
		items := make([]Value, 0, v.Len())
		for i := 1.0; ; i++ {
			item := v.Get(i)
			if item == nil {
				return array(items)
			}
			items = append(items, replyOf(item))
		}
	default:
		return Value{}
	}
}

// unpackMessage is cmsgpack.unpack for an array of texts.
func unpackMessage(args []lua.Value) []lua.Value {
	var in string
	if len(args) == 1 {
		in, _ = args[0].(string)
	}
	r := messageReader(in)
	values := make([]lua.Value, r.length(0x90, 0x0f, 0xdc, 2, 4))
	for i := range values {
		values[i] = r.take(r.length(0xa0, 0x1f, 0xd9, 1, 2, 4))
	}
	return []lua.Value{lua.NewTable(values...)}
}

// messageReader is the part of a message in MessagePack that is still unread.
type messageReader string

func (r *messageReader) take(n int) string {
	if n > len(*r) {
		lua.Raise("Missing bytes in input.")
	}
	taken := (*r)[:n]
	*r = (*r)[n:]
	return string(taken)
}

// length reads a type with its length: a short length is in the byte of the type, behind its prefix; for longer ones
// the types count up from first, and as many bytes follow as sizes says.
func (r *messageReader) length(prefix, mask, first byte, sizes ...int) int {
	kind := r.take(1)[0]
	if kind&^mask == prefix {
		return int(kind & mask)
	}
	at := int(kind) - int(first)
	if at < 0 || at >= len(sizes) {
		lua.Raise("Bad data format in input.")
	}
	var number [4]byte
	copy(number[4-sizes[at]:], r.take(sizes[at]))
	return int(binary.BigEndian.Uint32(number[:]))
}
