package nodetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// TTLs of the suite. A key that must still exist has a long one, however slow the machine is. A key that must
// expire has a short one, and no test expects it to exist before that.
const (
	long   = time.Minute
	middle = 40 * time.Second
	brief  = 20 * time.Second
	short  = 30 * time.Millisecond
	// slack is how long a test may take between setting a TTL and reading it.
	slack = 10 * time.Second
)

// limits are the suite's limits. A recovery with them takes too long for a test on a real clock.
var limits = node.Limits{MaxTTL: 2 * time.Minute, MaxClockSkew: 30 * time.Second}

// attempts bounds how often a test repeats a step that must be quick on a real clock.
const attempts = 1000

// trial is one subtest with its subject.
type trial struct {
	*testing.T
	Subject
	// limits are the defaults of the operations, and pool is the size of the pool.
	limits node.Limits
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
	ctx   context.Context //nolint:containedctx // a line changes it for the lines behind it
	end   context.CancelFunc
	// batch collects the operations below a line "batch".
	batch *batch
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
		x.limits, x.batch = limits, nil
		clear(x.vars)
		if err = open(x, nil, nil); err == nil {
			for _, b := range x.boxes {
				b.received()
			}
		}
	}
	require.NoError(x, err)
}

// run runs steps until one fails.
func (x *trial) run(steps []step) error {
	for _, s := range steps {
		words := x.words(s.text)
		var err error
		if statement, ok := statements[words[0].text]; ok && !(words[0].is("open") && len(words) > 1) {
			err = statement(x, words[1:], s.body)
		} else {
			err = x.operate(words)
		}
		if err != nil && s.body == nil {
			return fmt.Errorf("%s: %s: %w", s.at, s.text, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// statements are the lines that are no operations.
var statements map[string]func(x *trial, args []word, body []step) error

func init() {
	statements = map[string]func(x *trial, args []word, body []step) error{
		// open lets a node give rights, as an administrator does with a new one.
		"open": open,
		// limits sets the limits of the following operations: MaxTTL,MaxClockSkew.
		"limits": func(x *trial, args []word, _ []step) (err error) {
			x.limits, err = parseLimits(args[0].text)
			return err
		},
		// pool sets the size of the pool for the following operations.
		"pool": func(x *trial, args []word, _ []step) (err error) {
			x.pool, err = strconv.Atoi(args[0].text)
			return err
		},
		"pass":    func(x *trial, args []word, _ []step) error { d, err := x.duration(args[0].text); x.Pass(d); return err },
		"forget":  func(x *trial, _ []word, _ []step) error { x.Forget(); return nil },
		"restart": func(x *trial, _ []word, _ []step) error { x.Restart(); return nil },
		"plant":   func(x *trial, args []word, _ []step) error { x.Plant(args[0].text); return nil },
		// tokens gives variables new tokens, in this order.
		"tokens": func(x *trial, args []word, _ []step) error {
			for _, w := range args {
				delete(x.vars, w.text)
				x.number(w.text)
			}
			return nil
		},
		// keys NAME... requires that exactly these names are held.
		"keys": func(x *trial, args []word, _ []step) error {
			want := texts(args)
			slices.Sort(want)
			if got := slices.Sorted(slices.Values(x.Keys())); !slices.Equal(got, want) {
				return fmt.Errorf("%.500q are held", got)
			}
			return nil
		},
		// lives TTL NAME... requires that names with one holder have about this TTL left.
		"lives": func(x *trial, args []word, _ []step) error {
			return x.each(args[1:], "inspect %q -> inspected holders=1 "+args[0].text)
		},
		// fence TOKEN NAME... requires this fence for names that are held: a denial tells it.
		"fence": func(x *trial, args []word, _ []step) error {
			return x.each(args[1:], "acquire another %q ttl=1ms -> denied token="+args[0].text)
		},
		// readers NAME OWNER... requires that exactly these owners read a name, and that it has no other holder.
		"readers": func(x *trial, args []word, _ []step) error {
			var found []string
			r := x.do(node.Op{Kind: node.Inspect, Names: []string{args[0].text}})[0]
			for _, h := range r.Holders {
				if !h.Reads || h.TTL <= 0 {
					return fmt.Errorf("a strange reader: %+v", h)
				}
				found = append(found, h.Owner)
			}
			if want := texts(args[1:]); r.Err != nil || !slices.Equal(slices.Sorted(slices.Values(found)), slices.Sorted(slices.Values(want))) {
				return fmt.Errorf("%q read: %v", found, r.Err)
			}
			return nil
		},
		// line NAME ID... lets o1 hold a name, and others wait for it in this order.
		"line": func(x *trial, args []word, _ []step) error {
			err := x.operate(x.words(fmt.Sprintf("acquire o1 %q -> granted", args[0].text)))
			for i, id := range args[1:] {
				if err == nil {
					err = x.operate(x.words(fmt.Sprintf("queue %s#%d %q -> denied rank=%d", id.text, i+1, args[0].text, i)))
				}
			}
			return err
		},
		"for": loop,
		// within DURATION repeats the promise if the steps below take longer on a real clock.
		"within": func(x *trial, args []word, body []step) error {
			d, err := x.duration(args[0].text)
			began := time.Now()
			if err == nil {
				err = x.run(body)
			}
			if time.Since(began) > d {
				return errSlow
			}
			return err
		},
		// batch runs the operations below in one exchange.
		"batch": func(x *trial, _ []word, body []step) error {
			x.batch = &batch{}
			err := x.run(body)
			b := x.batch
			if x.batch = nil; err == nil {
				err = b.run(x)
			}
			return err
		},
		// until clock repeats the steps until the token of the first is refused as too old.
		"until": func(x *trial, _ []word, body []step) error {
			for range attempts {
				parts := split(x.words(body[0].text), "->")
				ops, err := x.ops(parts[0])
				if err != nil {
					return err
				}
				r := x.do(x.complete(ops[0]))[0]
				if errors.Is(r.Err, node.ErrClock) {
					return nil
				}
				if err = x.check(ops[0], r, parts[1]); err == nil {
					err = x.run(body[1:])
				}
				if err != nil {
					return fmt.Errorf("%s: %w", body[0].at, err)
				}
			}
			return errors.New("the token is never too old")
		},
		// shut closes the node, and close INBOX an inbox.
		"shut":  func(x *trial, _ []word, _ []step) error { return x.Node.Close() },
		"close": func(x *trial, args []word, _ []step) error { return x.boxes[args[0].text].Close() },
		// probe [-> REASON] asks whether the node answers.
		"probe": func(x *trial, args []word, _ []step) error { return x.refused(x.Node.Probe(x.ctx), args) },
		// handle second, handle first: the handle on the deployment for the following lines.
		"handle": func(x *trial, args []word, _ []step) error {
			if x.Node = x.first; args[0].text == "second" && x.Second != nil {
				x.Node = x.Second()
			}
			return nil
		},
		// context KIND ends the context before, and begins one for the following lines: live, ended, past (its deadline), or
		// long (until its deadline).
		"context": func(x *trial, args []word, _ []step) error {
			if x.end != nil {
				x.end()
			}
			x.ctx, x.end = context.WithCancel(context.Background())
			switch args[0].text {
			case "ended":
				x.end()
			case "past":
				x.ctx, x.end = context.WithDeadline(context.Background(), time.Unix(0, 0))
			case "long":
				x.ctx, x.end = context.WithTimeout(context.Background(), long)
			}
			return nil
		},
		"listen":   listen,
		"follow":   follow,
		"unfollow": unfollow,
		"told":     told,
		"hears":    hears,
		"gone":     gone,
		// silent INBOX requires that an inbox has received nothing.
		"silent": func(x *trial, args []word, _ []step) error {
			if b := x.boxes[args[0].text]; len(b.messages) > 0 {
				return fmt.Errorf("it received %+v", <-b.messages)
			}
			return nil
		},
	}
}

// each runs a line for each name.
func (x *trial) each(names []word, line string) error {
	for _, name := range names {
		if err := x.operate(x.words(fmt.Sprintf(line, name.text))); err != nil {
			return fmt.Errorf("%.100q: %w", name.text, err)
		}
	}
	return nil
}

// refused requires the failure of a call that is no operation: -> REASON. Without that it requires none.
func (x *trial) refused(err error, want []word) error {
	if len(want) == 0 {
		return err
	}
	var e *node.Error
	if !errors.Is(err, reasons[want[1].text]) || !errors.As(err, &e) || e.Node != x.Node.Name() || e.Op != 0 {
		return fmt.Errorf("not refused so: %w", err)
	}
	return nil
}

// open makes the node give rights, as an administrator does with a new one.
func open(x *trial, _ []word, _ []step) error {
	r := x.do(x.complete(node.Op{Kind: node.Mark}))[0]
	if r.Err != nil {
		return r.Err
	}
	x.began = uint64(r.Marker.Until - r.Marker.Left.Microseconds())
	return x.operate(x.words(fmt.Sprintf("open %q %d -> granted", r.Marker.Identity, r.Marker.Until)))
}

// loop runs the steps for each value, or each group of values: for VAR... in VALUE...
func loop(x *trial, args []word, body []step) error {
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
