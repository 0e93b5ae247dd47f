package quorumotel_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
	quorumotel "github.com/quorumlock/quorumlock/otel"
)

// A program that has set the global providers of OpenTelemetry calls NewHooks without options. Here the metrics go to
// a reader that the example prints.
func ExampleNewHooks() {
	ctx := context.Background()
	reader := metric.NewManualReader()
	hooks, err := quorumotel.NewHooks(quorumotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	if err != nil {
		log.Fatal(err)
	}
	cfg := quorumlock.Config{Nodes: []node.Node{memory.New("n1", nil)}, Hooks: hooks}
	if _, err := admin.Init(ctx, cfg); err != nil {
		log.Fatal(err)
	}
	client, err := quorumlock.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		if err := client.RedLock("invoices").Do(ctx, func(context.Context) error { return nil }); err != nil {
			log.Fatal(err)
		}
	}
	_ = client.Close(ctx) // It waits for the hooks.

	var metrics metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &metrics); err != nil {
		log.Fatal(err)
	}
	for _, m := range metrics.ScopeMetrics[0].Metrics {
		if m.Name == "quorumlock.lease.duration" {
			points := m.Data.(metricdata.Histogram[float64]).DataPoints
			fmt.Println(m.Name, "has", points[0].Count, "leases")
		}
	}
	// Output: quorumlock.lease.duration has 3 leases
}
