// Package container runs Redis servers as Docker containers that can be broken: each is a [faultinject.Server].
//
// It needs a Docker engine on this machine, Docker Desktop included, at DOCKER_HOST or the usual place; [Available] tells.
// On Linux the containers run the installed redis-server, which needs no registry. Where none is installed they run a public
// image, which is pulled once. [ImageEnv] names another image. The clock of a server of an image cannot be stepped.
//
// Clients reach a container through a [faultinject.Proxy] in front of its published port. The proxy cuts servers off,
// not the Docker network. When a container is disconnected from its network, its connections end and new ones are
// refused; on Linux, new ones to its own address fail within a second as unreachable. So clients would notice. The
// proxy stays silent.
//
// A group that is not closed, because its program was killed, is removed by a [Start] two hours later.
package container

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"

	"github.com/quorumlock/quorumlock/faultinject"
)

// Labels of a container: its group, and the expiry of that.
const (
	label        = "quorumlock.faultinject"
	expiresLabel = label + ".expires"
)

// lifetime is the time after which other programs may remove a group.
const lifetime = 2 * time.Hour

type group struct {
	id      string
	image   image
	expires time.Time
}

// Start starts n servers in parallel, named n1 to n<n>. It returns once all servers answer. The caller must close the
// group, which removes the containers with their data, and keeps the image. The error is [ErrNoEngine] if there is no
// Docker.
func Start(ctx context.Context, n int) (*faultinject.Group, error) {
	return startUntil(ctx, n, time.Now().Add(lifetime))
}

// startUntil is Start for a group that other programs may remove from an instant on.
func startUntil(ctx context.Context, n int, expires time.Time) (*faultinject.Group, error) {
	pool, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	defer pool.Client.HTTPClient.CloseIdleConnections()
	if err := removeExpired(ctx, pool.Client); err != nil {
		return nil, fmt.Errorf("faultinject: remove what earlier runs left: %w", err)
	}
	g := &group{id: strings.ToLower(rand.Text()[:10]), expires: expires}
	if g.image, err = findImage(ctx, pool.Client); err != nil {
		return nil, err
	}
	return faultinject.StartGroup(n, func(name string) (faultinject.Server, error) { return g.startServer(ctx, name) })
}

func (g *group) labels() map[string]string {
	return map[string]string{label: g.id, expiresLabel: strconv.FormatInt(g.expires.Unix(), 10)}
}

// removeExpired removes the containers of expired groups. Other programs may remove them at the same time.
func removeExpired(ctx context.Context, client *docker.Client) error {
	containers, err := client.ListContainers(docker.ListContainersOptions{
		All: true, Filters: map[string][]string{"label": {expiresLabel}}, Context: ctx,
	})
	for _, c := range containers {
		if expired(c.Labels) {
			_ = client.RemoveContainer(docker.RemoveContainerOptions{ID: c.ID, Force: true, RemoveVolumes: true, Context: ctx})
			removeShared(c.Mounts)
		}
	}
	return err
}

// removeShared removes directories on this machine that a container had mounted.
func removeShared(mounts []docker.APIMount) {
	for _, m := range mounts {
		if m.Destination == sharedDir && strings.HasPrefix(filepath.Base(m.Source), sharedPrefix) {
			_ = os.RemoveAll(m.Source)
		}
	}
}

func expired(labels map[string]string) bool {
	at, err := strconv.ParseInt(labels[expiresLabel], 10, 64)
	return err == nil && time.Now().Unix() > at
}

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

func isLocal(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	return u.Scheme == "unix" || u.Scheme == "npipe" || u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
}
