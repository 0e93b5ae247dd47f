package decision_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/decision"
)

func TestReadToken(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fences []uint64
		n      int
		want   uint64
	}{
		{"too few have told", []uint64{5}, 3, 0},
		{"none", nil, 1, 0},
		{"one node", []uint64{5}, 1, 5},
		{"a majority: the other may have what either has", []uint64{5, 7}, 3, 7},
		{"all: one alone is no writer", []uint64{5, 7, 5}, 3, 5},
		{"all agree", []uint64{5, 5, 5}, 3, 5},
		{"two of three", []uint64{7, 7, 5}, 3, 7},
		{"three of five", []uint64{5, 7, 6}, 5, 7},
		{"four of five", []uint64{5, 7, 6, 5}, 5, 6},
		{"five of five", []uint64{5, 7, 6, 5, 9}, 5, 6},
		{"two nodes: a writer may have listed one of them", []uint64{5, 7}, 2, 7},
		{"four nodes: a writer may have listed three or five", []uint64{5, 7, 6}, 4, 7},
		{"all of four", []uint64{5, 7, 6, 5}, 4, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(tt.fences)
			require.Equal(t, tt.want, decision.ReadToken(tt.fences, tt.n))
			require.Equal(t, before, tt.fences)
		})
	}
}

// Writers and readers come one after another, each to some majority of one of two lists, of which one has one node more. In
// between, contenders leave a token on a few nodes. No reader may act under a smaller token than an earlier writer or reader.
func TestReadTokensGrow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 4000 {
		shorter := 1 + rng.IntN(7)
		nodes := make([]uint64, shorter+1)
		last, next := uint64(0), uint64(1)
		for range 20 {
			n := shorter + rng.IntN(2)
			need := n/2 + 1
			some := rng.Perm(n)
			switch rng.IntN(3) {
			case 0: // a contender that fails
				next++
				for _, i := range some[:rng.IntN(need)] {
					nodes[i] = next
				}
			case 1: // a writer
				next++
				for _, i := range some[:need+rng.IntN(n-need+1)] {
					nodes[i] = next
				}
				last = next
			default:
				told := some[:need+rng.IntN(n-need+1)]
				fences := make([]uint64, 0, n)
				for _, i := range told {
					fences = append(fences, nodes[i])
				}
				token := decision.ReadToken(fences, n)
				require.GreaterOrEqual(t, token, last)
				require.Contains(t, append(fences, 0), token)
				for _, i := range told[:need] { // the write-back
					nodes[i] = max(nodes[i], token)
				}
				last = token
			}
		}
	}
}
