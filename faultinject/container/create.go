package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ory/dockertest/v3/docker"

	"github.com/quorumlock/quorumlock/internal/redisproc"
)

const innerPort = "6379/tcp"

// Limits of a container.
const (
	memoryLimit = 512 << 20
	cpuPeriod   = 100_000 // in microseconds, as the quota
	cpuQuota    = cpuPeriod
	pidsLimit   = 100
	logSize     = "1m"
)

func (d *driver) create(ctx context.Context) error {
	if d.id != "" {
		return nil
	}
	img := d.group.image
	var env []string
	if img.faketime != "" {
		env = redisproc.FaketimeEnv(img.faketime, sharedDir+"/"+clockName)
	}
	c, err := d.client.CreateContainer(docker.CreateContainerOptions{
		Name: "quorumlock-" + d.group.id + "-" + d.name,
		Config: &docker.Config{
			Image: img.ref, Entrypoint: []string{img.program}, Cmd: []string{sharedDir + "/" + configName},
			User: "0", Env: env, Labels: d.group.labels(), ExposedPorts: map[docker.Port]struct{}{innerPort: {}},
		},
		HostConfig: d.hostConfig(),
		Context:    ctx,
	})
	if err != nil {
		return err
	}
	d.id = c.ID
	return nil
}

func (d *driver) hostConfig() *docker.HostConfig {
	return &docker.HostConfig{
		Binds:        append([]string{d.dir + ":" + sharedDir + ":ro"}, d.group.image.binds...),
		SecurityOpt:  []string{"label=disable"}, // the directories of this machine have the labels of this machine
		PortBindings: map[docker.Port][]docker.PortBinding{innerPort: {{HostIP: "127.0.0.1", HostPort: strconv.Itoa(d.port)}}},
		Memory:       memoryLimit,
		CPUPeriod:    cpuPeriod,
		CPUQuota:     cpuQuota,
		PidsLimit:    pidsLimit,
		LogConfig:    docker.LogConfig{Type: "json-file", Config: map[string]string{"max-size": logSize}},
	}
}

const (
	// sharedDir is the container's directory for configuration and clock, which this program writes.
	sharedDir = "/faultinject"
	// sharedPrefix is the prefix of that directory's name on this machine.
	sharedPrefix = "quorumlock-faultinject"

	configName = "redis.conf"
	clockName  = "clock"
)

func (d *driver) share() (err error) {
	if d.dir, err = os.MkdirTemp("", sharedPrefix); err != nil {
		return err
	}
	return errors.Join(os.Chmod(d.dir, 0o755), redisproc.WriteClock(filepath.Join(d.dir, clockName), 0))
}

// configText is the configuration of the server. The log goes to standard output. The page cache outlives the server,
// so appended data survives without a sync.
const configText = `bind 0.0.0.0
protected-mode no
dir ` + dataDir + `
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

func (d *driver) SetMaxMemory(ctx context.Context, limit int64) error {
	d.maxMemory = limit
	if err := d.writeConfig(); err != nil {
		return err
	}
	state, err := d.state(ctx)
	if err != nil || !state.Running {
		return err
	}
	_, err = d.Command(ctx, "CONFIG", "SET", "maxmemory", strconv.FormatInt(limit, 10))
	return err
}

func (d *driver) StepClock(ctx context.Context, offset time.Duration) error {
	if err := d.group.image.noFaketime; err != nil {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	if err := redisproc.WriteClock(filepath.Join(d.dir, clockName), offset); err != nil {
		return err
	}
	state, err := d.state(ctx)
	if err != nil || !state.Running || state.Paused {
		return err
	}
	return redisproc.AwaitClock(ctx, offset, func(ctx context.Context) (string, error) { return d.Command(ctx, "TIME") })
}
