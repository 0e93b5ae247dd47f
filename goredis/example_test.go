package goredis_test

import (
	"context"
	"crypto/tls"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/goredis"
)

// The settings of the service's servers are the settings of its locks.
func ExampleNodes() {
	nodes, err := goredis.Nodes(
		&redis.Options{Addr: "a:6379", Username: "locker", Password: "secret"},
		&redis.Options{Addr: "b:6379", Username: "locker", Password: "secret"},
		&redis.Options{Addr: "c:6379", Username: "locker", Password: "secret"},
	)
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range nodes {
		defer n.Close()
	}
	client, err := quorumlock.New(quorumlock.Config{Nodes: nodes})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
}

// A server with TLS, and a certificate of a private authority.
func ExampleNew_tls() {
	config := &tls.Config{MinVersion: tls.VersionTLS12} // with RootCAs, and Certificates if the server wants one
	n, err := goredis.New(&redis.Options{Addr: "locks.example.com:6379", TLSConfig: config})
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
}

// Credentials that change: a token of the cloud, for one, which is valid for some minutes. The node asks for it each
// time it connects.
func ExampleNew_rotatingCredentials() {
	token := func(context.Context) (string, error) { return "a token of this hour", nil }
	n, err := goredis.New(&redis.Options{
		Addr: "locks.example.com:6379",
		CredentialsProviderContext: func(ctx context.Context) (user, password string, err error) {
			password, err = token(ctx)
			return "locker", password, err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
}

// One node that is a slot of a Redis Cluster. See docs/where-it-runs.md for what its servers need.
func ExampleNewCluster() {
	n, err := goredis.NewCluster(&redis.ClusterOptions{
		Addrs:    []string{"a:6379", "b:6379", "c:6379"},
		Username: "locker",
		Password: "secret",
	}, "ql")
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
}

// One node that is a master behind Sentinel. See docs/where-it-runs.md for what its servers need.
func ExampleNewFailover() {
	n, err := goredis.NewFailover(&redis.FailoverOptions{
		MasterName:       "locks",
		SentinelAddrs:    []string{"a:26379", "b:26379", "c:26379"},
		SentinelPassword: "of the Sentinels",
		Username:         "locker",
		Password:         "secret",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
}
