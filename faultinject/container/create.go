package container

import (
	"context"
	"strconv"

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

// create makes the container, if there is none.
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
