package faultinject_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/node"
)

// TestPredicates calls each predicate for the same seven calls.
func TestPredicates(t *testing.T) {
	never := faultinject.Chance(0)
	var all faultinject.Predicate
	for name, c := range map[string]struct {
		when faultinject.Predicate
		hits []int
	}{
		"nil":           {all, []int{1, 2, 3, 4, 5, 6, 7}},
		"kind":          {faultinject.Kind(node.Acquire), []int{1, 5}},
		"kinds":         {faultinject.Kind(node.Renew, node.Release), []int{2, 4, 5}},
		"no kind":       {faultinject.Kind(), nil},
		"kind 0":        {faultinject.Kind(0), nil},
		"lock":          {faultinject.Lock("b"), []int{4, 5, 6}},
		"locks":         {faultinject.Lock("a", "c"), []int{1, 2, 5, 6}},
		"owner":         {faultinject.Owner("b"), []int{4, 5}},
		"no owner":      {faultinject.Owner(""), []int{6}},
		"probing":       {faultinject.Probing(), []int{3}},
		"not probing":   {faultinject.Probing().Not(), []int{1, 2, 4, 5, 6, 7}},
		"nth":           {faultinject.Nth(2, 7), []int{2, 7}},
		"and, of one":   {faultinject.Kind(node.Renew).And(faultinject.Lock("b")), []int{5}},
		"and, of two":   {faultinject.Kind(node.Acquire).And(faultinject.Lock("b")), nil},
		"or":            {faultinject.Kind(node.Acquire).Or(faultinject.Probing()), []int{1, 3, 5}},
		"not":           {faultinject.Kind(node.Acquire).Not(), []int{2, 3, 4, 5, 6, 7}},
		"nil and":       {all.And(faultinject.Nth(3)), []int{3}},
		"and nil":       {faultinject.Nth(3).And(nil), []int{3}},
		"nil or never":  {never.Or(nil), []int{1, 2, 3, 4, 5, 6, 7}},
		"not nil":       {all.Not(), nil},
		"one's own":     {func(x *faultinject.Exchange, _ node.Op) bool { return x.Node == "n1" && len(x.Ops) == 2 }, []int{5}},
		"own and never": {faultinject.Predicate(func(*faultinject.Exchange, node.Op) bool { return true }).And(never), nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			rule := l.Add(faultinject.Rule{When: c.when, Do: faultinject.FailBefore()})
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
