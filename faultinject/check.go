package faultinject

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

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
