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
	"time"

	"github.com/quorumlock/quorumlock/internal/redisproc"
)

const kind = "container"

const (
	portAttempts = 10
	pollInterval = 5 * time.Millisecond
	startTimeout = time.Minute // many may start at once on a small machine
	closeTimeout = time.Minute
)

const (
	// sharedDir is the container's directory for configuration and clock, which this program writes.
	sharedDir = "/faultinject"
	// sharedPrefix is the prefix of that directory's name on this machine.
	sharedPrefix = "quorumlock-faultinject"

	configName = "redis.conf"
	clockName  = "clock"
	innerPort  = "6379"
)

var (
	errDown      = errors.New("the server is down")
	errRunning   = errors.New("the server is running")
	errPortTaken = errors.New("the port is taken")
)

// driver is one container. Wiping its data removes the container, and the next start makes another.
type driver struct {
	group     *group
	container string // its name
	dir       string // mounted as sharedDir
	port      int    // published on loopback
	maxMemory int64
}

// launch starts the container for the first time. It looks for ports until the engine could bind one.
func (d *driver) launch(ctx context.Context) (err error) {
	if d.dir, err = os.MkdirTemp("", sharedPrefix); err != nil {
		return err
	}
	err = errors.Join(os.Chmod(d.dir, 0o755), redisproc.WriteClock(filepath.Join(d.dir, clockName), 0), d.writeConfig())
	if err != nil {
		return err
	}
	for range portAttempts {
		if d.port, err = redisproc.FreePort(); err != nil {
			return err
		}
		// Another process may have taken the port since it was free.
		if err = d.run(ctx); !errors.Is(err, errPortTaken) {
			return err
		}
		if err := d.remove(ctx); err != nil {
			return err
		}
	}
	return err
}

// configText is the configuration of the server. The log goes to standard output. The page cache outlives the server,
// so appended data survives without a sync.
const configText = `bind 0.0.0.0
protected-mode no
dir /data
loglevel warning
save ""
appendonly yes
appendfsync no
maxmemory %d
maxmemory-policy noeviction
`

func (d *driver) writeConfig() error {
	return os.WriteFile(filepath.Join(d.dir, configName), fmt.Appendf(nil, configText, d.maxMemory), 0o644)
}

// addr is the server's own address, without the proxy.
func (d *driver) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(d.port)) }

func (d *driver) Command(ctx context.Context, args ...string) (string, error) {
	return redisproc.Exchange(ctx, "tcp", d.addr(), args...)
}

// The states of a container.
const (
	missing = ""
	running = "running"
	paused  = "paused"
)

// state returns the engine's state of the container. Every state but running and paused is down.
func (d *driver) state(ctx context.Context) (string, error) {
	state, err := docker(ctx, "inspect", "--format", "{{.State.Status}}", d.container)
	if err != nil && strings.Contains(strings.ToLower(err.Error()), "no such") {
		return missing, nil
	}
	return state, err
}

func (d *driver) Start(ctx context.Context) error {
	state, err := d.state(ctx)
	switch {
	case err != nil || state == paused:
		return err
	case state == running:
		return d.awaitAnswer(ctx) // a start that was given up may have gone on
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for ; ; time.Sleep(pollInterval) {
		// Another process that took the port meanwhile may free it again.
		if err := d.run(ctx); !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			return err
		}
	}
}

// run starts the container, creates it if there is none, and waits for an answer.
func (d *driver) run(ctx context.Context) error {
	state, err := d.state(ctx)
	if err == nil && state == missing {
		_, err = docker(ctx, d.create()...)
	}
	if err == nil {
		_, err = docker(ctx, "start", d.container)
	}
	if err != nil {
		if strings.Contains(err.Error(), "port is already allocated") || strings.Contains(err.Error(), "address already in use") {
			err = fmt.Errorf("%w: %w", errPortTaken, err)
		}
		return err
	}
	if err := d.awaitAnswer(ctx); err != nil {
		return d.giveUp(ctx, err)
	}
	return nil
}

// create returns the command that makes the container.
func (d *driver) create() []string {
	g := d.group
	args := []string{
		"create", "--name", d.container, "--user", "0", "--entrypoint", g.program,
		"--label", label + "=" + g.id, "--label", expiresLabel + "=" + strconv.FormatInt(g.expires.Unix(), 10), "--label", sharedLabel + "=" + d.dir,
		"--publish", d.addr() + ":" + innerPort, "--volume", "/data", "--volume", d.dir + ":" + sharedDir + ":ro",
		"--security-opt", "label=disable", // the directories of this machine have the labels of this machine
		"--memory", "512m", "--cpus", "1", "--pids-limit", "100", "--log-driver", "json-file", "--log-opt", "max-size=1m",
	}
	for _, path := range g.binds {
		args = append(args, "--volume", path+":"+path+":ro")
	}
	if g.faketime != "" {
		for _, variable := range redisproc.FaketimeEnv(g.faketime, sharedDir+"/"+clockName) {
			args = append(args, "--env", variable)
		}
	}
	return append(args, g.image, sharedDir+"/"+configName)
}

// giveUp ends a container that did not answer, and adds its log to the error.
func (d *driver) giveUp(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	log, _ := docker(ctx, "logs", "--tail", "20", d.container)
	return errors.Join(fmt.Errorf("%w; its log:\n%s", err, log), d.Kill(ctx))
}

// awaitAnswer returns once the server has loaded its data.
func (d *driver) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for ; ; time.Sleep(pollInterval) {
		_, err := d.Command(ctx, "PING")
		if err == nil {
			return nil
		}
		if state, stateErr := d.state(ctx); stateErr == nil && state != running {
			return fmt.Errorf("no answer, and the container is %q", state)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("no answer: %w (%w)", err, ctx.Err())
		}
	}
}

func (d *driver) Kill(ctx context.Context) error {
	state, err := d.state(ctx)
	if err != nil || state != running && state != paused {
		return err
	}
	if _, err := docker(ctx, "kill", d.container); err != nil && !strings.Contains(err.Error(), "is not running") {
		return err
	}
	_, err = docker(ctx, "wait", d.container)
	return err
}

func (d *driver) Stop(ctx context.Context) error {
	if err := d.Resume(ctx); err != nil {
		return err
	}
	state, err := d.state(ctx)
	if err == nil && state == running {
		_, err = docker(ctx, "stop", "--time", "60", d.container)
	}
	return err
}

func (d *driver) Wipe(ctx context.Context) error {
	state, err := d.state(ctx)
	switch {
	case err != nil:
		return err
	case state == running || state == paused:
		return errRunning
	default:
		return d.remove(ctx)
	}
}

// remove removes the container, running or not, and its data.
func (d *driver) remove(ctx context.Context) error {
	_, err := docker(ctx, "rm", "--force", "--volumes", d.container)
	if err != nil && strings.Contains(strings.ToLower(err.Error()), "no such") {
		return nil
	}
	return err
}

// maxPauses is how often a container is paused until that succeeds. On a busy machine not all processes may be frozen
// in the time that the runtime grants. It thaws them again then.
const maxPauses = 10

func (d *driver) Pause(ctx context.Context) error {
	state, err := d.state(ctx)
	switch {
	case err != nil || state == paused:
		return err
	case state != running:
		return errDown
	}
	for try := 1; ; try++ {
		_, err := docker(ctx, "pause", d.container)
		if err == nil || try == maxPauses || !strings.Contains(err.Error(), "unable to freeze") {
			return err
		}
	}
}

func (d *driver) Resume(ctx context.Context) error {
	state, err := d.state(ctx)
	if err == nil && state == paused {
		_, err = docker(ctx, "unpause", d.container)
	}
	return err
}

func (d *driver) StepClock(ctx context.Context, offset time.Duration) error {
	if err := d.group.noFaketime; err != nil {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	if err := redisproc.WriteClock(filepath.Join(d.dir, clockName), offset); err != nil {
		return err
	}
	state, err := d.state(ctx)
	if err != nil || state != running {
		return err
	}
	return redisproc.AwaitClock(ctx, offset, func(ctx context.Context) (string, error) { return d.Command(ctx, "TIME") })
}

func (d *driver) SetMaxMemory(ctx context.Context, limit int64) error {
	d.maxMemory = limit
	if err := d.writeConfig(); err != nil {
		return err
	}
	state, err := d.state(ctx)
	if err != nil || state != running {
		return err
	}
	_, err = d.Command(ctx, "CONFIG", "SET", "maxmemory", strconv.FormatInt(limit, 10))
	return err
}

func (d *driver) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := d.remove(ctx); err != nil {
		return err
	}
	return os.RemoveAll(d.dir)
}
