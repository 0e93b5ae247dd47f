// Command observed runs a small service whose locks are measured and traced with OpenTelemetry, and prints the
// metrics. Its nodes are in memory, so it needs no server. Within ten seconds, nodes fail, one loses its memory, and a
// lease is lost. With -listen it repeats that until it is interrupted, and serves the metrics to Prometheus.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "", "serve /metrics at this address until interrupted, for example localhost:9464")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := start(ctx, *listen, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func start(ctx context.Context, listen string, out io.Writer) error {
	t, err := newTelemetry() //nolint:contextcheck // hooks run outside of any call
	if err != nil {
		return err
	}
	if listen == "" {
		if err := t.watch(ctx); err != nil {
			return err
		}
		return t.show(out)
	}
	return serve(ctx, listen, t, out)
}

// serve repeats the scenario until ctx ends, and serves the metrics.
func serve(ctx context.Context, listen string, t *telemetry, out io.Writer) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	defer func() { _ = server.Close() }()
	go func() { _ = server.Serve(l) }()
	fmt.Fprintf(out, "http://%s/metrics\n", l.Addr())
	for ctx.Err() == nil {
		if err := t.watch(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return t.show(out)
}
