package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/cmd/internal/watch"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// Examine asks all nodes at once for all facts. If a node does not answer, the facts say why, so there is no error.
// Examine writes nothing: neither a key nor a setting.
func Examine(ctx context.Context, cfg Config) *Facts {
	f := &Facts{Config: cfg, Nodes: make([]Node, len(cfg.Nodes))}
	var wg sync.WaitGroup
	for i, opt := range cfg.Nodes {
		wg.Go(func() { f.Nodes[i] = examine(ctx, opt, &cfg) })
	}
	wg.Wait()
	return f
}

func examine(ctx context.Context, opt node.Options, cfg *Config) Node {
	n := Node{User: cmp.Or(opt.Username, "default"), Sentinel: opt.MasterName != "", Tag: opt.Tag, AllowEviction: opt.AllowEviction}
	peer, err := watch.NewPeer(opt, cfg.Patience, "quorumlock-doctor")
	if err != nil {
		n.Unreached = err
		return n
	}
	defer peer.Close()
	n.Name = peer.Name()
	// The library goes first: it recognises an address that is no Redis server.
	switch err := reasonOf(peer.Probe(ctx)); {
	case opt.Tag != "" && err != nil: // no other server is the node
		n.Unreached = err
		return n
	case isDenied(err): // the check of rights reports it
	case watch.IsOneOf(err, node.ErrTimeout, node.ErrUnreachable, node.ErrAuth, node.ErrProtocol, node.ErrCanceled):
		n.Unreached = err
		if opt.TLS != nil && isPlain(ctx, peer.Options) {
			n.Unreached = fmt.Errorf("%w: %w", err, errPlain)
		}
		return n
	default:
		n.Refused = err
	}
	n.Unseen = peer.Unseen()
	e := &examiner{Node: &n, peer: peer, recovery: cfg.Limits.Recovery()}
	if err := peer.Connect(); err != nil {
		n.Unreached = cmp.Or(n.Refused, err)
		return n
	}
	e.askServer(ctx)
	if e.Info.Value.role() == "sentinel" {
		n.Unreached = errSentinel
		return n
	}
	e.askMarker(ctx)
	e.Fences = e.run(ctx, "GETRANGE", wire.FencesKey(e.Tag), "0", "0")
	e.Lists.Value, e.Lists.Err = peer.Lists(ctx, cfg.Prefix)
	e.measure(ctx)
	e.tryRights(ctx, cfg.Names)
	if e.lost != nil {
		n.Unreached = fmt.Errorf("%w in the middle: %w", node.ErrUnreachable, e.lost)
	}
	return n
}

// isPlain reports whether there is a Redis server without TLS at an address that demands TLS.
func isPlain(ctx context.Context, opt node.Options) bool {
	opt.TLS, opt.Username, opt.Password = nil, "", "" // no password goes there in plain text
	lib, err := node.New(opt)
	if err != nil {
		return false
	}
	defer func() { _ = lib.Close() }()
	err = lib.Probe(ctx)
	return err == nil || watch.IsOneOf(err, node.ErrAuth, node.ErrRejected, node.ErrMisconfigured)
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
	answer, err1 := e.ask(ctx, "HMGET", wire.MarkerKey(e.Tag), "identity", "since")
	now, err2 := e.time(ctx)
	fields, err3 := answer.ToArray()
	if e.Marker.Err = cmp.Or(err1, err2, err3); e.Marker.Err != nil {
		return
	}
	texts := make([]string, len(fields))
	for i, f := range fields {
		texts[i], _ = f.ToString() // a field that is not there is empty
	}
	e.Marker.Value = parseMarker(texts, now, e.recovery)
}

// parseMarker parses the marker's fields. It returns nil if one is missing, as the scripts do.
func parseMarker(fields []string, now time.Time, recovery time.Duration) *Marker {
	since, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil || fields[0] == "" {
		return nil
	}
	m := &Marker{Identity: fields[0]}
	if since > 0 {
		m.Left = time.UnixMicro(since).Add(recovery).Sub(now)
	}
	return m
}

const samples = 30

// offset returns the offset of a server's clock that was told within a round trip. The server read it at some time
// within the trip, so the middle is wrong by half of the trip at most. sent is by this machine's clock.
func offset(sent, told time.Time, trip time.Duration) Offset {
	return Offset{Ahead: told.Sub(sent) - trip/2, Error: trip / 2}
}

// better returns the offset with the smaller error of two, unless only one is known.
func better(a, b Fact[Offset]) Fact[Offset] {
	if b.Known() && (!a.Known() || b.Value.Error < a.Value.Error) {
		return b
	}
	return a
}

// measure requests the time repeatedly, one request after the other. If TIME is not permitted, the refusals still
// measure round trips.
func (e *examiner) measure(ctx context.Context) {
	here := clock.System()
	for i := range samples {
		sent, began := here.Wall(), here.Now()
		told, err := e.time(ctx)
		trip := here.Now() - began
		now := Fact[Offset]{offset(sent, told, trip), err}
		if i == 0 {
			e.Clock = now
		}
		e.Clock = better(e.Clock, now)
		if err != nil && !isReply(err) {
			return
		}
		e.Trips = append(e.Trips, trip)
	}
}
