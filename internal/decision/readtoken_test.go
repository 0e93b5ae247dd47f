package decision_test

import (
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
