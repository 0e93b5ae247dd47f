// Command service books deposits on the accounts of a ledger. docs/your-own-service.md explains it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/election"
)

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		slog.Error("the replica failed", slog.Any("err", err))
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	var cfg quorumlock.Config
	nodes := flag.String("nodes", "", "addresses of the nodes")
	flag.BoolVar(&cfg.AllowEven, "allow-even", false, "allow an even number of nodes")
	flag.DurationVar(&cfg.MaxTTL, "max-ttl", 0, "the longest TTL of a lock")
	flag.DurationVar(&cfg.MaxClockSkew, "max-clock-skew", 0, "how far clocks may differ")
	flag.DurationVar(&cfg.Recovery, "recovery", 0, "how long a node recovers")
	flag.DurationVar(&cfg.NodeTimeoutMax, "node-timeout", 0, "how long an operation waits for a node")
	address := flag.String("address", ":8080", "where to serve HTTP")
	ledger := flag.String("ledger", "http://localhost:8081", "the ledger")
	night := flag.Duration("night", 24*time.Hour, "from one report to the next")
	drain := flag.Duration("drain", 5*time.Second, "how long balancers may take to notice that the replica ends")
	flag.Parse()
	cfg.Addresses = strings.Split(*nodes, ",")

	client, err := quorumlock.New(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close(context.WithoutCancel(ctx))) }()
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}
	*address = listener.Addr().String()
	slog.Info("serving", slog.String("address", *address))
	s := &Service{Client: client, Ledger: at(*ledger), Candidate: election.New(client, "auditor", election.Config{Name: *address})}
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second}
	var jobs sync.WaitGroup
	defer jobs.Wait() // before the client is closed
	jobs.Go(func() { _ = server.Serve(listener) })
	// With a wrong list or wrong limits the replica ends here, so that nobody waits for it to be ready.
	err = client.RedLock("start").Do(ctx, func(context.Context) error { return nil })
	switch {
	case ctx.Err() != nil:
		return server.Close()
	case err != nil:
		return errors.Join(err, server.Close())
	}
	s.Serving.Store(true)
	jobs.Go(func() { s.Work(ctx, *night) })
	<-ctx.Done()
	s.Serving.Store(false)
	time.Sleep(*drain)
	return server.Shutdown(context.WithoutCancel(ctx))
}

// Handler returns the routes.
func (s *Service) Handler() http.Handler {
	routes := http.NewServeMux()
	routes.HandleFunc("POST /accounts/{id}", func(w http.ResponseWriter, r *http.Request) {
		reply(w, s.deposit(r.Context(), "account:"+r.PathValue("id")))
	})
	routes.HandleFunc("GET /alive", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.Candidate.Healthy()) })
	routes.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) {
		if !s.Serving.Load() {
			http.Error(w, "the replica starts or ends", http.StatusServiceUnavailable)
			return
		}
		reply(w, s.Client.Ready(r.Context()))
	})
	return routes
}

func reply(w http.ResponseWriter, err error) {
	switch {
	case err == nil:
	case errors.Is(err, quorumlock.ErrNoQuorum): // too few nodes answer: the caller may ask again
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		slog.Error("a request failed", slog.Any("err", err))
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func at(url string) func(ctx context.Context, account string, token uint64) error {
	return func(ctx context.Context, account string, token uint64) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/%s?token=%d", url, account, token), nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("the ledger: %s", answer.Status)
		}
		return errors.Join(err, answer.Body.Close())
	}
}
