package node_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// BenchmarkDo runs batches of pairs of acquire and release: a batch of 16 is 8 of each.
func BenchmarkDo(b *testing.B) {
	b.Run("memory", func(b *testing.B) {
		m := opened(b, memory.New("m", nil))
		defer func() { _ = m.Close() }()
		benchmarkDo(b, m)
	})
	b.Run("redis", func(b *testing.B) { benchmarkDo(b, open(b, start(b).Addr())) })
}

func benchmarkDo(b *testing.B, n node.Node) {
	for _, size := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			ops := make([]node.Op, max(size, 2))
			for i := range ops {
				name := fmt.Sprint("n", i/2)
				ops[i] = acquire("o1", name)
				if i%2 == 1 {
					ops[i] = release("o1", name)
				}
			}
			ops = complete(ops...)
			replies := make([]node.Reply, len(ops))
			b.ResetTimer()
			for i := range b.N {
				from := i * size % len(ops)
				for j := range size {
					ops[from+j].Token++
				}
				n.Do(context.Background(), ops[from:from+size], replies[from:from+size])
			}
			b.StopTimer()
			for _, r := range replies[:size] {
				if r.Err != nil {
					b.Fatal(r.Err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/operation")
		})
	}
}
