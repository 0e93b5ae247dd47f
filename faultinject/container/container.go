// Package container runs Redis servers as Docker containers that can be broken, on their own network: each is a
// [faultinject.Server].
//
// It needs a Docker engine on this machine, Docker Desktop included, at DOCKER_HOST or the usual place; [Available]
// tells. It needs no registry, because the containers run the installed redis-server, unless [WithImage] names an image.
//
// Clients reach a container through a [faultinject.Proxy] in front of its published port. The proxy cuts servers off,
// not the Docker network. When a container is disconnected from its network, its connections end and new ones are
// refused; on Linux, new ones to its own address fail within a second as unreachable. So clients would notice. The
// proxy stays silent.
//
// A group that is not closed, because its program was killed, ends with its expiry (see [WithExpiry]). The next
// [Start] removes its remains. Everything that a group creates has the label quorumlock.faultinject.
package container

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
	"github.com/quorumlock/quorumlock/faultinject"
)

// ImageEnv is the environment variable that names the image, as [WithImage] does.
const ImageEnv = "QUORUMLOCK_REDIS_IMAGE"

// Option changes how containers are started.
type Option func(*config)

type config struct {
	image     string
	expiry    time.Duration
	trueClock bool
}

// WithImage names an image, such as valkey/valkey:8-bookworm; it is pulled if it is missing. The server is the default
// program of the image if that is called redis-server or valkey-server, and redis-server otherwise. Its clock cannot be
// stepped. Without this option and [ImageEnv], the containers run the redis-server on PATH, which must be a program
// for Linux, with the libraries of this machine.
func WithImage(image string) Option {
	return func(c *config) { c.image = image }
}

// WithExpiry sets the time after which the containers end by themselves, and other programs may remove them; 2 hours
// by default, in whole seconds.
func WithExpiry(d time.Duration) Option {
	return func(c *config) { c.expiry = d }
}

// WithTrueClock runs the servers without libfaketime, which reads a file at each reading of the clock. Their
// StepClock then fails with [errors.ErrUnsupported].
func WithTrueClock() Option {
	return func(c *config) { c.trueClock = true }
}

// Labels of everything made here: the group, and its expiry.
const (
	label        = "quorumlock.faultinject"
	expiresLabel = label + ".expires"
)

const defaultExpiry = 2 * time.Hour

// group is the common state of a group's servers.
type group struct {
	id      string
	image   image
	expires time.Time
	network *dockertest.Network
}

// Start starts n servers in parallel on their own network, named n1 to n<n>. They also reach each other by these
// names. Start returns once all servers answer. The caller must close the group, which removes containers, volumes and
// the network, and keeps the image. The error is [ErrNoEngine] if there is no Docker.
func Start(ctx context.Context, n int, opts ...Option) (*faultinject.Group, error) {
	conf := config{image: os.Getenv(ImageEnv), expiry: defaultExpiry}
	for _, o := range opts {
		o(&conf)
	}
	pool, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	defer pool.Client.HTTPClient.CloseIdleConnections()
	if err := removeExpired(ctx, pool.Client); err != nil {
		return nil, fmt.Errorf("faultinject: remove what earlier runs left: %w", err)
	}
	g, err := prepare(ctx, pool, conf)
	if err != nil {
		return nil, err
	}
	return faultinject.StartGroup(n,
		func(name string) (faultinject.Server, error) { return g.startServer(ctx, name) },
		func() error { return g.removeNetwork(pool) })
}

// prepare finds the image and makes the network.
func prepare(ctx context.Context, pool *dockertest.Pool, conf config) (*group, error) {
	g := &group{id: strings.ToLower(rand.Text()[:10]), expires: time.Now().Add(conf.expiry)}
	var err error
	if conf.image != "" {
		g.image, err = named(ctx, pool.Client, conf.image)
	} else {
		g.image, err = installed(ctx, pool.Client)
	}
	if err != nil {
		return nil, err
	}
	if conf.trueClock {
		g.image.faketime, g.image.clock = "", "the server was started with the true clock"
	}
	g.network, err = pool.CreateNetwork("quorumlock-"+g.id, func(o *docker.CreateNetworkOptions) {
		o.Driver, o.Labels, o.Context = "bridge", g.labels(), ctx
	})
	if err != nil {
		return nil, fmt.Errorf("faultinject: make a network: %w", err)
	}
	return g, nil
}

func (g *group) removeNetwork(pool *dockertest.Pool) error {
	defer pool.Client.HTTPClient.CloseIdleConnections()
	err := pool.RemoveNetwork(g.network)
	var gone *docker.NoSuchNetwork
	if err != nil && !errors.As(err, &gone) {
		return fmt.Errorf("faultinject: remove the network: %w", err)
	}
	return nil
}

func (g *group) labels() map[string]string {
	return map[string]string{label: g.id, expiresLabel: strconv.FormatInt(g.expires.Unix(), 10)}
}

// removeExpired removes the containers and networks of expired groups. Other programs may remove them at the same
// time.
func removeExpired(ctx context.Context, client *docker.Client) error {
	containers, err := client.ListContainers(docker.ListContainersOptions{
		All: true, Filters: map[string][]string{"label": {expiresLabel}}, Context: ctx,
	})
	if err != nil {
		return err
	}
	for _, c := range containers {
		if expired(c.Labels) {
			_ = client.RemoveContainer(docker.RemoveContainerOptions{ID: c.ID, Force: true, RemoveVolumes: true, Context: ctx})
			removeShared(c.Mounts)
		}
	}
	networks, err := client.ListNetworks()
	for _, n := range networks {
		if expired(n.Labels) {
			_ = client.RemoveNetwork(n.ID)
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
