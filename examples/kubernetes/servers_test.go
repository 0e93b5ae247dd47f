package kubernetes

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// pod is a server that runs as the manifest says, as a process of this test.
type pod struct {
	manifests
	// env is the environment of the container.
	env    []string
	port   string
	server *redisproc.Server
}

// startPods starts all servers of the set with the command, the files and the environment of the manifest. Only the
// addresses and the directories differ. The probes find the command quorumlock on PATH.
func startPods(t *testing.T) []*pod {
	t.Helper()
	m := readManifests(t)
	tools := t.TempDir()
	build := exec.Command("go", "build", "-o", tools, "../../cmd/quorumlock")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	config := t.TempDir()
	for file, text := range map[string]string{"redis.conf": m.config.Data["redis.conf"], "users.acl": m.secret.StringData["users.acl"]} {
		require.NoError(t, os.WriteFile(filepath.Join(config, file), []byte(text), 0o600))
	}
	nodes := m.secret.StringData["nodes"]
	pods := make([]*pod, *m.servers.Spec.Replicas)
	for i := range pods {
		pods[i] = &pod{manifests: m}
		pods[i].server = redisproc.Start(t, redisproc.WithCommandLine(m.redis().Command, map[string]string{"/etc/redis-locks/": config + "/"}))
		pods[i].port = strings.TrimPrefix(pods[i].server.Addr(), "127.0.0.1:")
		host := strings.Split(strings.Split(m.secret.StringData["nodes"], ",")[i], "@")[1]
		nodes = strings.Replace(nodes, host, "127.0.0.1:"+pods[i].port, 1)
	}
	for _, p := range pods {
		p.env = append(p.environment(nodes), "PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	return pods
}

// environment returns the environment of the container, with these addresses.
func (p *pod) environment(nodes string) (env []string) {
	known := map[string]string{}
	for _, e := range p.redis().Env {
		value := e.Value
		if e.ValueFrom != nil {
			value = p.secret.StringData[e.ValueFrom.SecretKeyRef.Key]
		}
		if value == p.secret.StringData["nodes"] {
			value = nodes
		}
		for name, before := range known { // $(NAME), as the kubelet does
			value = strings.ReplaceAll(value, "$("+name+")", before)
		}
		known[e.Name] = value
		env = append(env, e.Name+"="+strings.Replace(value, "127.0.0.1:6379", "127.0.0.1:"+p.port, 1))
	}
	return env
}

// run runs a command in the container, and returns its exit status and its output.
func (p *pod) run(t *testing.T, command []string) (int, string) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = p.env
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// TestProbesOfRealServers runs the commands of the probes and of the hook beside real servers.
func TestProbesOfRealServers(t *testing.T) {
	pods := startPods(t)
	redis := pods[0].redis()
	ready, alive, stop := redis.ReadinessProbe.Exec.Command, redis.LivenessProbe.Exec.Command, redis.Lifecycle.PreStop.Exec.Command
	alive = append([]string{alive[0], "-p", pods[0].port}, alive[1:]...) // each container has the same port, processes have not

	code, out := pods[0].run(t, alive)
	require.Zero(t, code, out)
	require.Equal(t, "PONG\n", out)
	code, out = pods[0].run(t, append(alive[:len(alive)-1:len(alive)-1], "flushall"))
	require.NotZero(t, code, "a refusal counts: %s", out)

	// The servers are new. They grant no locks before R has passed, or before an operator opens them.
	code, out = pods[0].run(t, ready)
	require.Equal(t, 121, code, out)
	code, out = pods[0].run(t, []string{"sh", "-c", "export QUORUMLOCK_NODES=$ALL_NODES; exec quorumlock init"})
	require.Zero(t, code, out)
	for _, p := range pods {
		code, out = p.run(t, ready)
		require.Zero(t, code, out)
	}
	code, out = pods[0].run(t, stop)
	require.Zero(t, code, out)

	// One server is missing: the hook of another waits, and gives up.
	pods[4].server.Kill()
	last := len(stop) - 1
	require.Contains(t, stop[last], "--wait 30s")
	code, out = pods[0].run(t, append(stop[:last:last], strings.Replace(stop[last], "30s", "300ms", 1)))
	require.Equal(t, 121, code, out)
	code, out = pods[0].run(t, ready)
	require.Zero(t, code, "the server itself grants locks: %s", out)
	code, out = pods[4].run(t, ready)
	require.NotZero(t, code, out)
}
