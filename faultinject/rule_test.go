package faultinject_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/node"
)

// TestPredicates calls each predicate for the same seven calls.
func TestPredicates(t *testing.T) {
	var all faultinject.Predicate
	probe := faultinject.Predicate(func(x *faultinject.Exchange, _ node.Op) bool { return x.Probe })
	for name, c := range map[string]struct {
		when faultinject.Predicate
		hits []int
	}{
		"nil":         {all, []int{1, 2, 3, 4, 5, 6, 7}},
		"kind":        {faultinject.Kind(node.Acquire), []int{1, 5}},
		"kinds":       {faultinject.Kind(node.Renew, node.Release), []int{2, 4, 5}},
		"no kind":     {faultinject.Kind(), nil},
		"kind 0":      {faultinject.Kind(0), nil},
		"lock":        {faultinject.Lock("b"), []int{4, 5, 6}},
		"locks":       {faultinject.Lock("a", "c"), []int{1, 2, 5, 6}},
		"owner":       {faultinject.Owner("b"), []int{4, 5}},
		"no owner":    {faultinject.Owner(""), []int{6}},
		"and, of one": {faultinject.Kind(node.Renew).And(faultinject.Lock("b")), []int{5}},
		"and, of two": {faultinject.Kind(node.Acquire).And(faultinject.Lock("b")), nil},
		"nil and":     {all.And(probe), []int{3}},
		"and nil":     {probe.And(nil), []int{3}},
		"one's own":   {func(x *faultinject.Exchange, _ node.Op) bool { return x.Node == "n1" && len(x.Ops) == 2 }, []int{5}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			rule := l.Add(faultinject.Rule{When: c.when, Do: faultinject.FailBefore(node.ErrUnreachable)})
			var hits []int
			for i, ask := range []func(){
				func() { l.do(acquireOp("a")) },
				func() { l.do(renewOp("a")) },
				func() { _ = l.Probe(t.Context()) },
				func() { l.do(releaseOp("b")) },
				func() { l.do(acquireOp("c"), renewOp("b")) },
				func() { l.do(node.Op{Kind: node.Inspect, Names: []string{"b", "c"}}) },
				func() { l.do() },
			} {
				before := rule.Hits()
				if ask(); rule.Hits() > before {
					hits = append(hits, i+1)
				}
			}
			require.Equal(t, c.hits, hits)
		})
	}
}
