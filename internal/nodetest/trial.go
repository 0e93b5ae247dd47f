package nodetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// TTLs in text are at least 10 s for a key that must still exist, however slow the machine is. They are 30 ms for one that
// must expire, and no promise expects it to exist before that.
const (
	long   = time.Minute
	middle = 40 * time.Second
	brief  = 20 * time.Second
	// slack is how long a test may take between setting a TTL and reading it.
	slack = 10 * time.Second
)

// limits are the suite's limits. A recovery with them takes too long for a test on a real clock.
var limits = wire.Limits{MaxTTL: 2 * time.Minute, MaxClockSkew: 30 * time.Second}

// attempts bounds how often a test repeats a step that must be quick on a real clock.
const attempts = 1000

type trial struct {
	*testing.T
	Subject
	// limits are the defaults of the operations, and pool is the size of the pool.
	limits wire.Limits
	pool   int
	// began is the node's clock when the node was marked; 0 before that. tokens are the tokens since.
	began, tokens uint64
	// vars are the variables of the promise, ids those with an identity, loops those of the loops around the line.
	vars  map[string]uint64
	ids   map[string]string
	loops map[string]string
	boxes map[string]*box
	// first is the node before the line "handle", ctx the context of all calls, and end ends it.
	first node.Node
	ctx   context.Context
	end   context.CancelFunc
	// at is the line that runs. batching says that its operations are for one exchange, with those in batch.
	at       string
	batching bool
	batch    []question
}

// errSlow says that steps took so long on a real clock that they say nothing about the node.
var errSlow = errors.New("the machine is too slow")

// tell runs the steps of a promise. It repeats them on a node that has forgotten everything if the machine was
// too slow.
func (x *trial) tell(begin, body []step) {
	x.first = x.Node
	x.vars, x.ids, x.loops = map[string]uint64{}, map[string]string{}, map[string]string{}
	err := x.run(begin)
	for range attempts {
		if err == nil {
			err = x.run(body)
		}
		if !errors.Is(err, errSlow) {
			break
		}
		x.Forget()
		x.limits, x.batching, x.batch = limits, false, nil
		clear(x.vars)
		err = x.open()
		for _, b := range x.boxes {
			if err == nil {
				_, err = b.received()
			}
		}
	}
	require.NoError(x, err)
}

// malformed ends the test, since the text makes no sense.
func (x *trial) malformed(format string, args ...any) {
	x.Fatalf("%s: "+format, append([]any{x.at}, args...)...)
}

func (x *trial) run(steps []step) error {
	for _, s := range steps {
		x.at = s.at + ": " + s.text
		words := x.words(s.text)
		if s.body != nil && !slices.Contains([]string{"for", "within", "batch", "until"}, words[0].text) {
			x.malformed("nothing belongs below this line")
		}
		if err := x.line(words[0], words[1:], s.body); err != nil && s.body == nil {
			return fmt.Errorf("%s: %s: %w", s.at, s.text, err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (x *trial) line(verb word, args []word, body []step) error {
	switch text := texts(args); verb.text {
	case "limits": // of the following operations: MaxTTL,MaxClockSkew
		x.limits = x.limitsOf(text[0])
	case "pool": // the size of the pool for the following operations
		x.pool = int(x.number(text[0]))
	case "pass":
		x.Pass(x.duration(text[0]))
	case "forget":
		x.Forget()
	case "restart":
		x.Restart()
	case "plant":
		x.Plant(text[0])
	case "tokens": // VARIABLE... get new tokens, in this order
		for _, name := range text {
			delete(x.vars, name)
			x.number(name)
		}
	case "keys": // exactly these names are held
		return same(x.Keys(), text)
	case "readers": // NAME OWNER... exactly these owners read a name, and it has no other holder
		return x.readers(text[0], text[1:])
	case "lives": // TTL NAME... names with one holder have about this TTL left
		return x.each(text[1:], "inspect %q -> inspected holders=1 "+text[0])
	case "fence": // TOKEN NAME... the fence of names that are held, since a denial tells it
		return x.each(text[1:], "acquire another %q ttl=1ms -> denied token="+text[0])
	case "queued": // NAME ID... o1 holds a name, and others wait for it in this order
		lines := []string{fmt.Sprintf("acquire o1 %q -> granted", text[0])}
		for i, id := range text[1:] {
			lines = append(lines, fmt.Sprintf("queue %s#%d %q -> denied rank=%d", id, i+1, text[0], i))
		}
		return x.ask(lines...)
	case "for": // VARIABLE... in VALUE...
		return x.loop(args, body)
	case "within": // DURATION: the promise begins again if the steps below take longer on a real clock
		began := time.Now()
		if err := x.run(body); time.Since(began) <= x.duration(text[0]) {
			return err
		}
		return errSlow
	case "batch": // the operations below run in one exchange
		x.batching = true
		err := x.run(body)
		if x.batching = false; err == nil {
			err = x.flush()
		}
		return err
	case "until": // clock: the steps run until the token of the first is refused as too old
		return x.untilTooOld(body)
	case "shut":
		return x.Node.Close()
	case "close": // INBOX
		return x.boxes[text[0]].Close()
	case "probe": // [-> REASON]
		return x.refused(x.Node.Probe(x.ctx), split(args, "->"))
	case "handle": // second or first: the handle on the deployment for the following lines
		if x.Node = x.first; text[0] == "second" && x.Second != nil {
			x.Node = x.Second()
		}
	case "context":
		x.change(text[0])
	case "listen", "follow": // a follower also gets the messages for Redisson's clients
		return x.listen(args, verb.text == "follow")
	case "told":
		return x.told(args)
	case "hears":
		return x.hears(args)
	case "gone":
		return x.gone(text[0])
	case "silent": // INBOX: it has received nothing
		return same(make([]string, len(x.boxes[text[0]].messages)), nil)
	case "open":
		if len(args) == 0 {
			return x.open()
		}
		fallthrough
	default:
		return x.operate(append([]word{verb}, args...))
	}
	return nil
}

func (x *trial) ask(lines ...string) error {
	var steps []step
	for _, line := range lines {
		steps = append(steps, step{at: x.at, text: line})
	}
	return x.run(steps)
}

func (x *trial) each(names []string, line string) error {
	for _, name := range names {
		if err := x.ask(fmt.Sprintf(line, name)); err != nil {
			return err
		}
	}
	return nil
}

func same(got, want []string) error {
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Errorf("it is %.500q", got)
	}
	return nil
}

// readers requires that exactly these owners read a name.
func (x *trial) readers(name string, owners []string) error {
	var found []string
	r := x.do(wire.Op{Kind: wire.Inspect, Names: []string{name}})[0]
	for _, h := range r.Holders {
		if !h.Reads || h.TTL <= 0 {
			return fmt.Errorf("a strange reader: %+v", h)
		}
		found = append(found, h.Owner)
	}
	return errors.Join(r.Err, same(found, owners))
}

// open makes the node give rights, as an administrator does with a new one.
func (x *trial) open() error {
	r := x.do(x.complete(wire.Op{Kind: wire.Mark}))[0]
	if r.Err != nil {
		return r.Err
	}
	x.began = nowOf(r.Marker, x.limits)
	return x.ask(fmt.Sprintf("open %q %d -> granted", r.Marker.Identity, r.Marker.Since))
}

// loop runs the steps for each value, or each group of values.
func (x *trial) loop(args []word, body []step) error {
	in := slices.IndexFunc(args, func(w word) bool { return w.is("in") })
	vars := texts(args[:in])
	for values := range slices.Chunk(texts(args[in+1:]), len(vars)) {
		for i, name := range vars {
			x.loops[name] = values[i]
		}
		if err := x.run(body); err != nil {
			return fmt.Errorf("%q are %.100q: %w", vars, values, err)
		}
	}
	return nil
}

func (x *trial) untilTooOld(body []step) error {
	for range attempts {
		parts := split(x.words(body[0].text), "->")
		op := x.ops(parts[0])[0]
		r := x.do(op)[0]
		if errors.Is(r.Err, node.ErrClock) {
			return nil
		}
		err := x.check(op, r, parts[1])
		if err == nil {
			err = x.run(body[1:])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", body[0].at, err)
		}
	}
	return errors.New("the token is never too old")
}

// change ends the context before, and begins one for the following lines: live, ended, past (its deadline), or long
// (until its deadline).
func (x *trial) change(kind string) {
	if x.end != nil {
		x.end()
	}
	x.ctx, x.end = context.WithCancel(context.Background())
	switch kind {
	case "ended":
		x.end()
	case "past":
		x.ctx, x.end = context.WithDeadline(context.Background(), time.Unix(0, 0))
	case "long":
		x.ctx, x.end = context.WithTimeout(context.Background(), long)
	}
}

// refused requires the failure of a call that is no operation, if the line has an arrow and a reason; else it requires
// none.
func (x *trial) refused(err error, parts [][]word) error {
	if len(parts) == 1 {
		return err
	}
	var e *node.Error
	if !errors.Is(err, reasons[parts[1][0].text]) || !errors.As(err, &e) || e.Node != x.Node.Name() || e.Op != "" {
		return fmt.Errorf("not refused so: %w", err)
	}
	return nil
}
