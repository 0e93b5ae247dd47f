package container

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
)

// Labels of everything made here: the group, its expiry in Unix time, and the directory that a container shares.
const (
	label        = "quorumlock.faultinject"
	expiresLabel = label + ".expires"
	dirLabel     = label + ".dir"
)

// group is the common state of a group's servers.
type group struct {
	id       string
	image    image
	faketime faketime
	expires  time.Time
	network  string
}

// Start starts n servers in parallel on their own network, named n1 to n<n>. They also reach each other by these
// names. Start prints the chosen image, and returns once all servers answer. The caller must close the group, which
// removes containers, volumes and the network, and keeps the image. The error is [ErrNoEngine] if there is no Docker.
func Start(ctx context.Context, n int, opts ...Option) (*faultinject.Group, error) {
	conf := newConfig(opts)
	if err := Available(ctx); err != nil {
		return nil, err
	}
	if err := removeExpired(ctx); err != nil {
		return nil, fmt.Errorf("faultinject: remove what earlier runs left: %w", err)
	}
	g, err := prepare(ctx, conf)
	if err != nil {
		return nil, err
	}
	return faultinject.StartGroup(n,
		func(name string) (faultinject.Server, error) { return g.startServer(ctx, name) }, g.removeNetwork)
}

// prepare finds the image and makes the network.
func prepare(ctx context.Context, conf config) (*group, error) {
	g := &group{id: strings.ToLower(rand.Text()[:10]), expires: time.Now().Add(conf.expiry)}
	var err error
	if g.image, err = choose(ctx, conf.image); err != nil {
		return nil, err
	}
	fmt.Fprintf(conf.output, "faultinject: containers run %s: %s\n", g.image.ref, g.image.why)
	if g.faketime, err = findFaketime(ctx, g.image, conf.trueClock); err != nil {
		return nil, err
	}
	g.network = "quorumlock-" + g.id
	create := append([]string{"network", "create", "--driver=bridge"}, g.labels()...)
	if _, err = docker(ctx, append(create, g.network)...); err != nil {
		return nil, fmt.Errorf("faultinject: make a network: %w", err)
	}
	return g, nil
}

func (g *group) removeNetwork() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if _, err := docker(ctx, "network", "rm", g.network); err != nil && !isGone(err) {
		return fmt.Errorf("faultinject: remove the network: %w", err)
	}
	return nil
}

// isGone reports whether the engine does not know what it was asked for.
func isGone(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "no such") || strings.Contains(text, "not found")
}

// labels returns the options that label what the group creates.
func (g *group) labels() []string {
	return []string{"--label=" + label + "=" + g.id, "--label=" + expiresLabel + "=" + strconv.FormatInt(g.expires.Unix(), 10)}
}

// removeExpired removes the containers and networks of expired groups. Other programs may do so at the same time, so
// only listing them can fail.
func removeExpired(ctx context.Context) error {
	const each = "{{.ID}} {{.Label \"" + expiresLabel + "\"}}"
	containers, err := docker(ctx, "ps", "--all", "--filter=label="+expiresLabel, "--format="+each+" {{.Label \""+dirLabel+"\"}}")
	if err != nil {
		return err
	}
	for line := range strings.Lines(containers) {
		f := strings.Fields(line)
		if len(f) < 3 || !expired(f[1]) {
			continue
		}
		_, _ = docker(ctx, "rm", "--force", "--volumes", f[0])
		_ = os.RemoveAll(f[2])
	}
	networks, err := docker(ctx, "network", "ls", "--filter=label="+expiresLabel, "--format="+each)
	for line := range strings.Lines(networks) {
		if f := strings.Fields(line); len(f) == 2 && expired(f[1]) {
			_, _ = docker(ctx, "network", "rm", f[0])
		}
	}
	return err
}

// expired reports whether a time of an expiresLabel has passed.
func expired(expires string) bool {
	at, err := strconv.ParseInt(expires, 10, 64)
	return err == nil && time.Now().Unix() > at
}
