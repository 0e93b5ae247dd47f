package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/ory/dockertest/v3"
)

const pingTimeout = 10 * time.Second

// ErrNoEngine means that no Docker engine answers that shares its ports and files with this program.
var ErrNoEngine = errors.New("no Docker engine")

// Available returns the reason in one line why containers cannot run here, as an [ErrNoEngine]; nil if they can.
func Available(ctx context.Context) error {
	pool, err := connect(ctx)
	if err != nil {
		return err
	}
	defer pool.Client.HTTPClient.CloseIdleConnections()
	return nil
}

// connect returns a pool with an engine that answers.
func connect(ctx context.Context) (*dockertest.Pool, error) {
	pool, err := dockertest.NewPool("")
	if err != nil {
		return nil, fmt.Errorf("faultinject: %w: %w", ErrNoEngine, err)
	}
	endpoint := pool.Client.Endpoint()
	if !isLocal(endpoint) {
		return nil, fmt.Errorf("faultinject: %w on this machine: %s is on another, whose ports and files are not shared", ErrNoEngine, endpoint)
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := pool.Client.PingWithContext(ctx); err != nil {
		pool.Client.HTTPClient.CloseIdleConnections()
		return nil, fmt.Errorf("faultinject: %w at %s: %w", ErrNoEngine, endpoint, err)
	}
	return pool, nil
}

// isLocal reports whether an engine's endpoint is on this machine.
func isLocal(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	switch u.Scheme {
	case "unix", "npipe":
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip.IsLoopback()
}
