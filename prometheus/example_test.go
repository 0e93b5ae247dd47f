package quorumprom_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
	quorumprom "github.com/quorumlock/quorumlock/prometheus"
)

func Example() {
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	hooks, err := quorumprom.NewHooks(registry)
	if err != nil {
		log.Fatal(err)
	}
	cfg := quorumlock.Config{Nodes: []node.Node{memory.New("n1", clock.System())}, Hooks: hooks}
	if _, err := admin.Init(context.Background(), cfg); err != nil {
		log.Fatal(err)
	}
	client, err := quorumlock.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	err = client.RedLock("job").Do(context.Background(), func(context.Context) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
	if err := client.Close(context.Background()); err != nil { // Close waits for the hooks.
		log.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "quorumlock_acquire_rounds_total" {
			fmt.Println(family.GetName(), family.GetMetric()[0].GetCounter().GetValue())
		}
	}
	// Output: quorumlock_acquire_rounds_total 1
}
