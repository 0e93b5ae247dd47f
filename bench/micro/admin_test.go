package micro

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/node/memory"
)

// memory returns a configuration with n new in-memory nodes, and the nodes.
func inMemory(n int) (cfg quorumlock.Config, nodes []*memory.Node) {
	cfg = quorumlock.Config{AllowEven: true, Logger: slog.New(slog.DiscardHandler)}
	for i := range n {
		m := memory.New(fmt.Sprintf("n%d", i+1), nil)
		nodes, cfg.Nodes = append(nodes, m), append(cfg.Nodes, m)
	}
	return cfg, nodes
}

// BenchmarkInit sets up nodes that are new, or already set up.
func BenchmarkInit(b *testing.B) {
	for _, n := range sizes {
		for _, found := range []string{"new", "open"} {
			b.Run(fmt.Sprintf("nodes=%d/found=%s", n, found), func(b *testing.B) {
				b.ReportAllocs()
				cfg, nodes := inMemory(n)
				_, err := admin.Init(b.Context(), cfg)
				require.NoError(b, err)
				for b.Loop() {
					if found == "new" {
						for _, m := range nodes {
							m.Flush()
						}
					}
					if _, err := admin.Init(b.Context(), cfg); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkChangeLimits finds that no change is needed.
func BenchmarkChangeLimits(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			cfg, _ := inMemory(n)
			_, err := admin.Init(b.Context(), cfg)
			require.NoError(b, err)
			for b.Loop() {
				if _, err := admin.ChangeLimits(b.Context(), cfg); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
