package node

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

func BenchmarkMemory(b *testing.B) {
	c := clock.NewManual(time.Unix(1_700_000_000, 0))
	for name, n := range map[string]Node{"twin": NewMemory("m", c), "scripted": NewScripted(c)} {
		for _, size := range []int{1, 16} {
			b.Run(name+map[int]string{1: "/lone", 16: "/batch"}[size], func(b *testing.B) {
				limits := Limits{MaxTTL: 10 * time.Second, MaxClockSkew: time.Second}
				r := make([]Reply, 1)
				n.Do(context.Background(), []Op{{Kind: Mark, Limits: limits}}, r)
				n.Do(context.Background(), []Op{{Kind: Open, Limits: limits, Marker: r[0].Marker}}, r)
				var ops []Op
				for i := range size {
					name := string(rune('a' + i))
					ops = append(ops, Op{Kind: Acquire, Names: []string{name}, Owner: "o", TTL: time.Second, Limits: limits, Fair: true},
						Op{Kind: Release, Names: []string{name}, Owner: "o", TTL: time.Second, Limits: limits})
				}
				replies := make([]Reply, len(ops))
				b.ReportAllocs()
				token := uint64(c.Wall().UnixMicro())
				for b.Loop() {
					for i := range ops {
						token++
						ops[i].Token = token
					}
					if size == 1 {
						n.Do(context.Background(), ops[:1], replies[:1])
						n.Do(context.Background(), ops[1:], replies[1:])
					} else {
						n.Do(context.Background(), ops, replies)
					}
					if replies[0].Outcome != Granted {
						b.Fatal(replies[0])
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(ops)), "ns/node-op")
			})
		}
	}
}
