package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/internal/control"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

const (
	kind         = "container"
	portAttempts = 10
	pollInterval = 5 * time.Millisecond
	startTimeout = time.Minute // many may start at once on a small machine
	closeTimeout = time.Minute
)

var (
	errDown      = errors.New("the server is down")
	errRunning   = errors.New("the server is running")
	errPortTaken = errors.New("the port is taken")
)

// harmless is the stop signal of the containers. Servers ignore it, so that a stop with a timeout is a time to live.
const harmless = "SIGWINCH"

// configName names the configuration file, and configText is its content. The log goes to standard output. The page
// cache outlives the server, so appended data survives without a sync.
const (
	configName = "redis.conf"
	configText = `bind 0.0.0.0
protected-mode no
dir ` + dataDir + `
loglevel warning
save ""
appendonly yes
appendfsync no
maxmemory %d
maxmemory-policy noeviction
`
)

// driver is one container. Wiping its data replaces the container.
type driver struct {
	group     *group
	name      string
	dir       string // mounted as sharedDir
	id        string // empty while there is none
	port      int    // published on loopback
	maxMemory int64
	expiries  sync.WaitGroup // calls that end the container at its time
}

// startServer starts a server that answers.
func (g *group) startServer(ctx context.Context, name string) (faultinject.Server, error) {
	d := &driver{group: g, name: name}
	var err error
	if d.dir, err = shareDir(g.faketime.library); err != nil {
		return nil, control.Failed(kind, name, "start", err)
	}
	for range portAttempts {
		// Another process may take the port while it is free.
		if err = d.firstStart(ctx); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		return nil, control.Failed(kind, name, "start", errors.Join(err, d.Close())) //nolint:contextcheck // it is removed even if ctx has ended
	}
	return control.New(kind, name, d.addr(), d) //nolint:contextcheck // the proxy outlives ctx
}

func (d *driver) firstStart(ctx context.Context) (err error) {
	if err = d.remove(ctx); err != nil {
		return err
	}
	if d.port, err = redisproc.FreePort(); err != nil {
		return err
	}
	if err = d.writeConfig(); err != nil {
		return err
	}
	return d.start(ctx)
}

// addr is the server's own address, without the proxy.
func (d *driver) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(d.port)) }

func (d *driver) Command(ctx context.Context, args ...string) (string, error) {
	return redisproc.Exchange(ctx, "tcp", d.addr(), args...)
}

// Start starts on the same port. Another process that took it meanwhile may free it again.
func (d *driver) Start(ctx context.Context) error {
	state, err := d.state(ctx)
	if err != nil || state.paused {
		return err
	}
	if state.running {
		return d.awaitAnswer(ctx) // a start that was given up may have gone on
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := d.start(ctx)
		if !errors.Is(err, errPortTaken) || !wait(ctx, pollInterval) {
			return err
		}
	}
}

// start starts the container, creates it if necessary, and waits for an answer.
func (d *driver) start(ctx context.Context) (err error) {
	if d.id == "" {
		if d.id, err = docker(ctx, d.createCommand()...); err != nil {
			return err
		}
	}
	if _, err := docker(ctx, "start", d.id); err != nil {
		if strings.Contains(err.Error(), "port is already allocated") || strings.Contains(err.Error(), "address already in use") {
			err = fmt.Errorf("%w: %w", errPortTaken, err)
		}
		return err
	}
	d.expire() //nolint:contextcheck // the expiry outlives ctx
	if err := d.awaitAnswer(ctx); err != nil {
		return d.giveUp(ctx, err)
	}
	return nil
}

func (d *driver) createCommand() []string {
	img := d.group.image
	env := img.env
	if d.group.faketime.library != "" {
		env = faketimeEnv(img)
	}
	args := []string{
		"create", "--name=" + d.group.network + "-" + d.name, "--user=0", "--entrypoint=" + img.program,
		"--network=" + d.group.network, "--network-alias=" + d.name, fmt.Sprintf("--publish=127.0.0.1:%d:6379", d.port), bind(d.dir),
		"--memory=512m", "--cpus=1", "--pids-limit=100", "--log-driver=json-file", "--log-opt=max-size=1m",
		"--stop-signal=" + harmless, "--label=" + dirLabel + "=" + d.dir,
	}
	args = append(append(args, d.group.labels()...), environment(env)...)
	return append(args, img.ref, sharedDir+"/"+configName)
}

// expire makes the engine end the container at its time, even without this program. The call lasts until the container
// has ended.
func (d *driver) expire() {
	id, seconds := d.id, max(1, time.Until(d.group.expires)/time.Second)
	d.expiries.Go(func() {
		_, _ = docker(context.Background(), "stop", fmt.Sprintf("--time=%d", seconds), id)
	})
}

// awaitAnswer returns once the server has loaded its data.
func (d *driver) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		_, err := d.Command(ctx, "PING")
		if err == nil {
			return nil
		}
		if state, stateErr := d.state(ctx); stateErr == nil && !state.running {
			return errors.New("it ended")
		}
		if !wait(ctx, pollInterval) {
			return fmt.Errorf("no answer: %w (%w)", err, ctx.Err())
		}
	}
}

// giveUp ends a container that did not answer, and adds its log to the error.
func (d *driver) giveUp(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	log, _ := docker(ctx, "logs", "--tail=20", d.id)
	return errors.Join(fmt.Errorf("%w; its log:\n%s", err, log), d.end(ctx, "SIGKILL"))
}

func (d *driver) Kill(ctx context.Context) error { return d.end(ctx, "SIGKILL") }

func (d *driver) Stop(ctx context.Context) error {
	if err := d.Resume(ctx); err != nil {
		return err
	}
	return d.end(ctx, "SIGTERM")
}

// end sends a signal that ends the server, and returns once it has ended.
func (d *driver) end(ctx context.Context, signal string) error {
	if d.id == "" {
		return nil
	}
	if _, err := docker(ctx, "kill", "--signal="+signal, d.id); err != nil && !strings.Contains(err.Error(), "is not running") {
		return err
	}
	_, err := docker(ctx, "wait", d.id)
	return err
}

func (d *driver) Wipe(ctx context.Context) error {
	state, err := d.state(ctx)
	if err == nil && state.running {
		err = errRunning
	}
	if err != nil {
		return err
	}
	return d.remove(ctx)
}

// remove removes the container, running or not, and its data.
func (d *driver) remove(ctx context.Context) error {
	if d.id == "" {
		return nil
	}
	if _, err := docker(ctx, "rm", "--force", "--volumes", d.id); err != nil && !isGone(err) {
		return err
	}
	d.id = ""
	return nil
}

func (d *driver) Pause(ctx context.Context) error {
	state, err := d.state(ctx)
	switch {
	case err != nil || state.paused:
		return err
	case !state.running:
		return errDown
	}
	_, err = docker(ctx, "pause", d.id)
	return err
}

func (d *driver) Resume(ctx context.Context) error {
	state, err := d.state(ctx)
	if err != nil || !state.paused {
		return err
	}
	_, err = docker(ctx, "unpause", d.id)
	return err
}

// state is the engine's state of a container. A missing container is down. A paused one runs, too.
type state struct{ running, paused bool }

func (d *driver) state(ctx context.Context) (state, error) {
	if d.id == "" {
		return state{}, nil
	}
	text, err := docker(ctx, "inspect", "--format={{.State.Running}} {{.State.Paused}}", d.id)
	running, paused, _ := strings.Cut(text, " ")
	return state{running == "true", paused == "true"}, err
}

func (d *driver) writeConfig() error {
	return os.WriteFile(filepath.Join(d.dir, configName), fmt.Appendf(nil, configText, d.maxMemory), 0o644)
}

func (d *driver) SetMaxMemory(ctx context.Context, limit int64) error {
	d.maxMemory = limit
	if err := d.writeConfig(); err != nil {
		return err
	}
	state, err := d.state(ctx)
	if err != nil || !state.running {
		return err
	}
	_, err = d.Command(ctx, "CONFIG", "SET", "maxmemory", strconv.FormatInt(limit, 10))
	return err
}

func (d *driver) StepClock(ctx context.Context, offset time.Duration) error {
	if d.group.faketime.library == "" {
		return fmt.Errorf("%w: %s", errors.ErrUnsupported, d.group.faketime.why)
	}
	if err := redisproc.WriteClock(filepath.Join(d.dir, clockName), offset); err != nil {
		return err
	}
	state, err := d.state(ctx)
	if err != nil || !state.running || state.paused {
		return err
	}
	return redisproc.AwaitClock(ctx, "tcp", d.addr(), offset)
}

func (d *driver) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := d.remove(ctx); err != nil {
		return err
	}
	d.expiries.Wait()
	return os.RemoveAll(d.dir)
}

// wait waits for d, and reports whether ctx lasted that long.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
