package faultinject

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// All stands for every node, or every client, in a [Step].
const All = -1

// Step is one fault, from an instant to another.
type Step struct {
	// At is the begin, counted from the start of the plan, and For the duration: 0 for a fault of a single instant.
	At, For time.Duration
	Fault   Fault
	// Node and Client are the indices of the target, from 0. A fault on the way between clients and nodes uses both,
	// and either may be All. Other faults ignore the number that they do not need.
	Node, Client int
	// Amount is the step of a clock, the delay of each message, or the time whose writes Lose removes.
	Amount time.Duration
}

// Target is the target in text: n2, c1, c1-n2. For a way, the side that is All is left out: c1- or -n2.
func (s Step) Target() string {
	node, client := label("n", s.Node), label("c", s.Client)
	switch kinds[s.Fault].scope {
	case ofNode:
		return node
	case ofClient:
		return client
	default:
		return client + "-" + node
	}
}

func label(kind string, index int) string {
	if index == All {
		return ""
	}
	return kind + strconv.Itoa(index+1)
}

// String formats the step as a line of a plan, such as "2.35s pause n2 for 800ms" or "4s slow c1-n3 by 50ms for 2s".
func (s Step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %s %s", s.At, s.Fault, s.Target())
	if kinds[s.Fault].amount {
		fmt.Fprintf(&b, " by %v", s.Amount)
	}
	if !kinds[s.Fault].instant {
		fmt.Fprintf(&b, " for %v", s.For)
	}
	return b.String()
}

// End returns the time at which the step is over.
func (s Step) End() time.Duration { return s.At + s.For }

// Plan is a schedule of faults.
type Plan []Step

// String formats the plan as text for [ParsePlan]: a line for each step, in the order in which they begin.
func (p Plan) String() string {
	sorted := slices.SortedStableFunc(slices.Values(p), func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	var b strings.Builder
	for _, s := range sorted {
		b.WriteString(s.String() + "\n")
	}
	return b.String()
}

// ParsePlan parses the text of a plan. It ignores empty lines, and text after a #. An error names the line.
func ParsePlan(text io.Reader) (Plan, error) {
	var plan Plan
	lines := bufio.NewScanner(text)
	n := 1
	for ; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		step, err := parseStep(line)
		if err != nil {
			return nil, fmt.Errorf("faultinject: line %d of the plan: %w", n, err)
		}
		plan = append(plan, step)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("faultinject: reading line %d of the plan: %w", n, err)
	}
	return plan, nil
}

// parseStep parses a step in the format of [Step.String].
func parseStep(line string) (Step, error) {
	words := strings.Fields(line)
	if len(words) < 3 {
		return Step{}, fmt.Errorf("%q: expected a time, a fault and a target", line)
	}
	at, err := time.ParseDuration(words[0])
	s := Step{At: at, Fault: Fault(words[1])}
	if err = cmp.Or(err, s.Fault.check(), s.parseTarget(words[2]), s.parseRest(words[3:])); err == nil {
		err = s.check(math.MaxInt, math.MaxInt)
	}
	if err != nil {
		return Step{}, fmt.Errorf("%q: %w", line, err)
	}
	return s, nil
}

func (s *Step) parseTarget(word string) error {
	var err error
	s.Node, s.Client = All, All
	switch kinds[s.Fault].scope {
	case ofNode:
		s.Node, err = index("n", word)
	case ofClient:
		s.Client, err = index("c", word)
	case ofLink:
		client, node, ok := strings.Cut(word, "-")
		if !ok {
			return fmt.Errorf("%s is about a way, such as c1-n2, c1- or -n2; not %s", s.Fault, word)
		}
		if client != "" {
			s.Client, err = index("c", client)
		}
		if node != "" && err == nil {
			s.Node, err = index("n", node)
		}
	}
	return err
}

func index(kind, word string) (int, error) {
	digits, ok := strings.CutPrefix(word, kind)
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || digits[0] == '+' {
		return 0, fmt.Errorf("expected something like %s1, not %q", kind, word)
	}
	return n - 1, nil
}

func (s *Step) parseRest(words []string) (err error) {
	kind := kinds[s.Fault]
	if kind.amount {
		if len(words) < 2 || words[0] != "by" {
			return errors.New(`expected "by" and how much`)
		}
		if s.Amount, err = time.ParseDuration(words[1]); err != nil {
			return err
		}
		words = words[2:]
	}
	if !kind.instant {
		if len(words) < 2 || words[0] != "for" {
			return errors.New(`expected "for" and how long`)
		}
		if s.For, err = time.ParseDuration(words[1]); err != nil {
			return err
		}
		words = words[2:]
	}
	if len(words) > 0 {
		return fmt.Errorf("%q is too much", strings.Join(words, " "))
	}
	return nil
}

// Check reports all errors of a plan for the given numbers of nodes and clients: an unknown fault, an invalid target,
// a time before the beginning, steps that conflict. It returns nil for a valid plan.
//
// Two steps on one target conflict if they overlap and have the same fault. So do two that overlap and each stop a node,
// or need one that runs: the state after the first of them would be undefined.
func (p Plan) Check(nodes, clients int) error {
	var errs []error
	for _, s := range p {
		if err := s.check(nodes, clients); err != nil {
			errs = append(errs, fmt.Errorf("faultinject: %q: %w", s, err))
		}
	}
	return errors.Join(append(errs, p.overlaps()...)...)
}

func (s Step) check(nodes, clients int) error {
	kind, err := kinds[s.Fault], s.Fault.check()
	switch {
	case err != nil:
		return err
	case s.At < 0, s.For < 0, s.End() < s.At:
		return errors.New("a time is negative, or too long")
	case kind.instant && s.For != 0:
		return errors.New("it is of an instant, and has no length")
	case s.Fault == Lose && (s.Amount <= 0 || s.Amount > s.For):
		return errors.New("the lost writes must lie between its beginning and its end")
	case s.Fault == Slow && s.Amount < 0:
		return errors.New("the delay is negative")
	case kind.scope != ofClient && !there(s.Node, nodes, kind.scope):
		return fmt.Errorf("there is no such node among %d", nodes)
	case kind.scope != ofNode && !there(s.Client, clients, kind.scope):
		return fmt.Errorf("there is no such client among %d", clients)
	default:
		return nil
	}
}

// there reports whether an index is valid, or means all of them for a way.
func there(index, of int, about scope) bool {
	return index >= 0 && index < of || index == All && about == ofLink
}

// overlaps lists the steps that begin before another on the same target has ended.
func (p Plan) overlaps() (errs []error) {
	sorted := slices.SortedStableFunc(slices.Values(p), func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	for i, a := range sorted {
		for _, b := range sorted[i+1:] {
			if a.Target() == b.Target() && b.At < a.End() && (a.Fault == b.Fault || a.Fault.stopsNode() && b.Fault.stopsNode()) {
				errs = append(errs, fmt.Errorf("faultinject: %q begins before %q has ended", b, a))
			}
		}
	}
	return errs
}

// stopsNode reports whether a fault stops a node, or needs a running one.
func (f Fault) stopsNode() bool {
	switch f {
	case Stop, Kill, Wipe, Lose, Pause, Flush, Failover, Move, Isolate:
		return true
	default:
		return false
	}
}
