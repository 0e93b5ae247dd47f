package container

import (
	"context"
	"strconv"

	"github.com/ory/dockertest/v3/docker"
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
func (s *server) create(ctx context.Context) error {
	if s.id != "" {
		return nil
	}
	img := s.group.image
	env := img.env
	if s.group.faketime.library != "" {
		env = faketimeEnv(img)
	}
	c, err := s.client.CreateContainer(docker.CreateContainerOptions{
		Name: s.group.network.Network.Name + "-" + s.name,
		Config: &docker.Config{
			Image: img.ref, Entrypoint: []string{img.program}, Cmd: []string{sharedDir + "/" + configName},
			User: "0", Env: env, Labels: s.group.labels(), ExposedPorts: map[docker.Port]struct{}{innerPort: {}},
			StopSignal: harmless,
		},
		HostConfig:       s.hostConfig(),
		NetworkingConfig: s.networking(),
		Context:          ctx,
	})
	if err != nil {
		return err
	}
	s.id = c.ID
	return nil
}

func (s *server) hostConfig() *docker.HostConfig {
	return &docker.HostConfig{
		Binds:        []string{bind(s.dir)},
		PortBindings: map[docker.Port][]docker.PortBinding{innerPort: {{HostIP: "127.0.0.1", HostPort: strconv.Itoa(s.port)}}},
		NetworkMode:  s.group.network.Network.Name,
		Memory:       memoryLimit,
		CPUPeriod:    cpuPeriod,
		CPUQuota:     cpuQuota,
		PidsLimit:    pidsLimit,
		LogConfig:    docker.LogConfig{Type: "json-file", Config: map[string]string{"max-size": logSize}},
	}
}

func (s *server) networking() *docker.NetworkingConfig {
	return &docker.NetworkingConfig{EndpointsConfig: map[string]*docker.EndpointConfig{
		s.group.network.Network.Name: {Aliases: []string{s.name}},
	}}
}
