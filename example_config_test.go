package quorumlock_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

func exampleNodes(ttl time.Duration) ([]*memory.Node, quorumlock.Config) {
	var nodes []*memory.Node
	cfg := quorumlock.Config{TTL: ttl, Logger: slog.New(slog.DiscardHandler)}
	for i := range 3 {
		n := memory.New(fmt.Sprintf("n%d", i+1), nil)
		nodes, cfg.Nodes = append(nodes, n), append(cfg.Nodes, n)
	}
	if _, err := admin.Init(context.Background(), cfg); err != nil {
		log.Fatal(err)
	}
	return nodes, cfg
}

func openExample(cfg quorumlock.Config) *quorumlock.Client {
	client, err := quorumlock.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// Servers with certificates of a private authority. With certificates that the system trusts, the Addresses
// "rediss://locker:password@locks-1.example.com:6379" and so on are enough.
func ExampleConfig_tls() {
	authority := x509.NewCertPool() // with AppendCertsFromPEM
	var cfg quorumlock.Config
	for _, host := range []string{"locks-1.example.com", "locks-2.example.com", "locks-3.example.com"} {
		n, err := node.New(node.Options{
			Addresses: []string{host + ":6379"},
			Username:  "locker",
			Password:  "password",
			TLS:       &tls.Config{RootCAs: authority, ServerName: host, MinVersion: tls.VersionTLS13},
		})
		if err != nil {
			log.Fatal(err)
		}
		defer func() { _ = n.Close() }() // A client closes only the nodes that it made.
		cfg.Nodes = append(cfg.Nodes, n)
	}
	client, err := quorumlock.New(cfg) // It connects with the first lock, or with Connect.
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close(context.Background()) }()
	fmt.Println(len(cfg.Nodes), "nodes")
	// Output: 3 nodes
}

// Three deployments, each a master with replicas, and Sentinels that choose the master. docs/servers.md has the
// settings that they need.
func ExampleConfig_sentinel() {
	client, err := quorumlock.New(quorumlock.Config{
		Addresses: []string{
			"redis://a1.example.com:26379?addr=a2.example.com:26379&addr=a3.example.com:26379&master_set=locks-a",
			"redis://b1.example.com:26379?addr=b2.example.com:26379&addr=b3.example.com:26379&master_set=locks-b",
			"redis://c1.example.com:26379?addr=c2.example.com:26379&addr=c3.example.com:26379&master_set=locks-c",
		},
		MaxClockSkew: 2 * time.Second, // in all clients of these nodes: at least min-replicas-max-lag + 1s
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close(context.Background()) }()
	fmt.Println("three nodes")
	// Output: three nodes
}

// Hooks get events. They run on a goroutine of their own, in the order of the events.
func ExampleHooks() {
	ctx := context.Background()
	_, cfg := exampleNodes(0)
	cfg.Hooks = quorumlock.MultiHooks(
		quorumlock.LogHooks(slog.New(slog.DiscardHandler)), // every event except votes, to a handler that discards them
		quorumlock.Hooks{
			Acquired: func(e quorumlock.AcquiredEvent) { fmt.Println("acquired", e.Names) },
			Ended:    func(e quorumlock.EndedEvent) { fmt.Println("released:", errors.Is(e.Err, quorumlock.ErrReleased)) },
		})
	client := openExample(cfg)

	_ = client.RedLock("invoices").Do(ctx, func(context.Context) error { return nil })
	_ = client.Close(ctx) // It waits for the hooks.
	// Output:
	// acquired [invoices]
	// released: true
}
