package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/rights"
	"github.com/quorumlock/quorumlock/internal/watch"
	"github.com/quorumlock/quorumlock/node"
)

// examiner asks one node.
type examiner struct {
	*Node
	// opt are the options of client.
	opt    rueidis.ClientOption
	client rueidis.Client
	// elsewhere is why the connection uses another database than programs.
	elsewhere error
	// lost is why the server is no longer asked.
	lost error
}

// examine collects the facts about one node.
func examine(ctx context.Context, opt node.Options, cfg *Config) Node {
	opt.Dialer.Timeout = cmp.Or(opt.Dialer.Timeout, cfg.Patience)
	opt.ConnWriteTimeout = cmp.Or(opt.ConnWriteTimeout, cfg.Patience)
	n := Node{User: cmp.Or(opt.Username, "default"), Sentinel: opt.Sentinel.MasterSet != "", Tag: opt.Tag, AllowEviction: opt.AllowEviction}
	lib, err := node.New(opt)
	if err != nil {
		n.Unreached = err
		return n
	}
	defer func() { _ = lib.Close() }() //nolint:contextcheck // it is bounded by the timeouts
	n.Name = lib.Name()
	// The library goes first: it recognises an address that is no Redis server.
	switch err := reasonOf(lib.Probe(ctx)); {
	case opt.Tag != "" && err != nil: // no other server is the node
		n.Unreached = err
		return n
	case isDenied(err): // checkRights reports it
	case isUnreached(err):
		n.Unreached = err
		if opt.TLSConfig != nil && isPlain(ctx, opt.ClientOption) {
			n.Unreached = fmt.Errorf("%w: %w", err, errPlain)
		}
		return n
	default:
		n.Refused = err
	}
	if opt.Tag != "" {
		opt.InitAddress = []string{lib.Address()}
	}
	e := &examiner{Node: &n, opt: opt.ClientOption}
	if err := e.connect(); err != nil {
		n.Unreached = cmp.Or(n.Refused, err)
		return n
	}
	defer e.client.Close()
	e.askServer(ctx)
	if e.Info.Value.role() == "sentinel" {
		n.Unreached = errSentinel
		return n
	}
	e.askMarker(ctx)
	if e.elsewhere == nil {
		e.Fences = e.run(ctx, "GETRANGE", node.FencesKey(e.Tag), "0", "0")
	}
	e.measure(ctx)
	e.Lua = e.run(ctx, "EVAL", harmless, "0")
	e.tryRights(ctx, cfg.Names)
	if e.lost != nil {
		n.Unreached = fmt.Errorf("%w in the middle: %w", node.ErrUnreachable, e.lost)
	}
	return n
}

// errPlain is for an address with rediss:// and a server that speaks plain text there.
var errPlain = errors.New("the address demands TLS, but the server does not speak TLS at this port")

// isPlain reports whether there is a Redis server without TLS at an address that demands TLS.
func isPlain(ctx context.Context, opt rueidis.ClientOption) bool {
	opt.TLSConfig, opt.Username, opt.Password, opt.AuthCredentialsFn = nil, "", "", nil // no password goes there in plain text
	lib, err := node.NewRedis(opt)
	if err != nil {
		return false
	}
	defer func() { _ = lib.Close() }() //nolint:contextcheck // it is bounded by the timeouts
	err = lib.Probe(ctx)
	return err == nil || errors.Is(err, node.ErrAuth) || errors.Is(err, node.ErrRejected) || errors.Is(err, node.ErrMisconfigured)
}

// errSentinel is for the address of a Sentinel, instead of a server that it watches.
var errSentinel = errors.New("this is a Sentinel, not a node")

// reasonOf returns a node's error without the node's name, which the report prints beside it.
func reasonOf(err error) error {
	var e *node.Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.Err == nil:
		return e.Reason
	default:
		return fmt.Errorf("%w: %w", e.Reason, e.Err)
	}
}

// isUnreached reports whether the node cannot be asked at all.
func isUnreached(err error) bool {
	for _, reason := range []error{node.ErrTimeout, node.ErrUnreachable, node.ErrAuth, node.ErrProtocol, node.ErrCanceled} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}

// isDenied reports whether the server knows the user, and denies a command.
func isDenied(err error) bool { return err != nil && strings.Contains(err.Error(), "NOPERM") }

// connect makes the connection. A user who may not use the database is examined in database 0.
func (e *examiner) connect() (err error) {
	if e.client, err = watch.Connect(e.opt, "quorumlock-doctor"); e.opt.SelectDB == 0 {
		return err
	}
	rule := rights.Database().Rules[0]
	if err == nil || !isDenied(err) || !strings.Contains(err.Error(), "select") {
		e.note(rule, rights.ForDatabase, Permitted, nil)
		return err
	}
	e.note(rule, rights.ForDatabase, Denied, err)
	e.elsewhere, e.opt.SelectDB = err, 0
	e.client, err = watch.Connect(e.opt, "quorumlock-doctor")
	return err
}

// ask runs one command. A server that failed to answer is not asked again: each command would wait for the timeout.
func (e *examiner) ask(ctx context.Context, args ...string) (rueidis.RedisMessage, error) {
	if e.lost != nil {
		return rueidis.RedisMessage{}, e.lost
	}
	answer, err := e.client.Do(ctx, e.client.B().Arbitrary(e.inSlot(args)...).Build()).ToMessage()
	if err != nil && !isReply(err) && !rueidis.IsRedisNil(err) {
		e.lost = err
	}
	return answer, err
}

// inSlot puts the key of the probes into the slot of the node, if that is a slot of a cluster.
func (e *examiner) inSlot(args []string) []string {
	if e.Tag == "" {
		return args
	}
	args = slices.Clone(args)
	for i, arg := range args {
		if arg == absentKey {
			args[i] = absentKey + ":{" + e.Tag + "}"
		}
	}
	return args
}

// run is ask without the answer.
func (e *examiner) run(ctx context.Context, args ...string) error {
	_, err := e.ask(ctx, args...)
	return err
}

// settings are the settings that INFO does not include.
var settings = []string{"min-replicas-to-write", "min-replicas-max-lag", "stop-writes-on-bgsave-error", "cluster-node-timeout"}

func (e *examiner) askServer(ctx context.Context) {
	answer, err := e.ask(ctx, "INFO")
	text, _ := answer.ToString() // empty if there is no answer
	e.Info = Fact[Info]{parseInfo(text), err}
	e.Settings = make(map[string]Fact[string], len(settings))
	for _, name := range settings {
		answer, err := e.ask(ctx, "CONFIG", "GET", name)
		values, _ := answer.AsStrMap() // as above
		value, ok := values[name]
		if err == nil && !ok {
			err = errors.New("the server does not know this setting")
		}
		e.Settings[name] = Fact[string]{value, err}
	}
}

func (e *examiner) askMarker(ctx context.Context) {
	if e.elsewhere != nil {
		e.Marker.Err = e.elsewhere
		return
	}
	answer, err1 := e.ask(ctx, "HMGET", node.MarkerKey(e.Tag), "identity", "until", "max_ttl", "max_skew")
	now, err2 := e.serverTime(ctx)
	fields, err3 := answer.ToArray()
	if err := cmp.Or(err1, err2, err3); err != nil {
		e.Marker.Err = err
		return
	}
	texts := make([]string, len(fields))
	for i, f := range fields {
		texts[i], _ = f.ToString() // a field that is not there is empty
	}
	e.Marker.Value = parseMarker(texts, now)
}

// parseMarker parses the marker's fields. It returns nil if one is missing, as the scripts do.
func parseMarker(fields []string, now time.Time) *Marker {
	var numbers [3]int64
	for i, text := range fields[1:] {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil
		}
		numbers[i] = n
	}
	if fields[0] == "" {
		return nil
	}
	m := &Marker{Identity: fields[0], Limits: node.Limits{
		MaxTTL:       time.Duration(numbers[1]) * time.Millisecond,
		MaxClockSkew: time.Duration(numbers[2]) * time.Millisecond,
	}}
	if until := numbers[0]; until > 0 {
		m.Left = time.UnixMicro(until).Sub(now)
	}
	return m
}

// serverTime returns the node's clock.
func (e *examiner) serverTime(ctx context.Context) (time.Time, error) {
	answer, err := e.ask(ctx, "TIME")
	if err != nil {
		return time.Time{}, err
	}
	parts, err := answer.AsIntSlice()
	if err != nil || len(parts) != 2 {
		return time.Time{}, errors.New("the answer to TIME is not a time")
	}
	return time.Unix(parts[0], parts[1]*int64(time.Microsecond)), nil
}

// harmless is a script that calls no command, so that none of them can be missing. A server before 7.0 lets a script
// call set_repl only if the script can write after it has asked for the time.
const harmless = `if redis.set_repl then redis.set_repl(redis.REPL_ALL) end return 1`
