// Package container runs Redis servers as Docker containers that can be broken: each is a [faultinject.Server].
//
// It needs the command docker, and an engine on this machine, Docker Desktop included; [Available] tells. On Linux the
// containers run the installed redis-server, which needs no registry. Where none is installed they run a public image, which
// is pulled once. [ImageEnv] names another image. The clock of a server of an image cannot be stepped.
//
// Clients reach a container through a [faultinject.Proxy] in front of its published port. The proxy cuts servers off,
// not the Docker network. When a container is disconnected from its network, its connections end and new ones are
// refused; on Linux, new ones to its own address fail within a second as unreachable. So clients would notice. The
// proxy stays silent.
//
// A group that is not closed, because its program was killed, is removed by a [Start] two hours later. Each container
// has the label quorumlock.faultinject.
package container

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/internal/control"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// Labels of a container: its group, the expiry of that, and the directory of this machine that it has mounted.
const (
	label        = "quorumlock.faultinject"
	expiresLabel = label + ".expires"
	sharedLabel  = label + ".shared"
)

// lifetime is the time after which other programs may remove a group.
const lifetime = 2 * time.Hour

// ImageEnv is the environment variable that names the image of the containers, such as valkey/valkey:8-bookworm.
const ImageEnv = "QUORUMLOCK_REDIS_IMAGE"

const (
	// bareImage is an image without files, in which the installed server runs.
	bareImage = "quorumlock-faultinject:bare"
	// publicImage is the image where no server is installed.
	publicImage = "redis:7.2-bookworm"
)

// group is the common state of a group's servers.
type group struct {
	id      string
	expires time.Time
	image   string
	program string   // of the server
	binds   []string // directories of this machine that the program needs
	// faketime is the path of libfaketime; noFaketime says why there is none.
	faketime   string
	noFaketime error
}

// Start starts n servers in parallel, named n1 to n<n>. It returns once all servers answer. The caller must close the
// group, which removes the containers with their data, and keeps the image. The error is [ErrNoEngine] if there is no
// Docker.
func Start(ctx context.Context, n int) (*faultinject.Group, error) {
	return startUntil(ctx, n, time.Now().Add(lifetime))
}

// startUntil is Start for a group that other programs may remove from an instant on.
func startUntil(ctx context.Context, n int, expires time.Time) (*faultinject.Group, error) {
	if err := Available(ctx); err != nil {
		return nil, err
	}
	if err := removeExpired(ctx); err != nil {
		return nil, fmt.Errorf("faultinject: remove what earlier runs left: %w", err)
	}
	g := &group{id: strings.ToLower(rand.Text()[:10]), expires: expires}
	if err := g.findImage(ctx); err != nil {
		return nil, fmt.Errorf("faultinject: the image %s: %w", g.image, err)
	}
	return faultinject.StartGroup(n, func(name string) (faultinject.Server, error) {
		d := &driver{group: g, container: "quorumlock-" + g.id + "-" + name}
		if err := d.launch(ctx); err != nil {
			return nil, control.Failed(kind, name, "start", errors.Join(err, d.Close())) //nolint:contextcheck // it is closed even if ctx has ended
		}
		return control.New(kind, name, d.addr(), d)
	})
}

// findImage takes the image that the environment names, the installed server, or else the public image.
func (g *group) findImage(ctx context.Context) error {
	g.image = os.Getenv(ImageEnv)
	installed, err := exec.LookPath("redis-server")
	if err == nil {
		installed, err = filepath.Abs(installed)
	}
	if g.image == "" && err == nil && runtime.GOOS == "linux" {
		return g.useInstalled(ctx, installed)
	}
	g.image = cmp.Or(g.image, publicImage)
	g.program, g.noFaketime = "redis-server", errors.New("the servers of a named image have the true clock")
	command, err := docker(ctx, "image", "inspect", "--format", "{{join .Config.Cmd \" \"}}", g.image)
	if err != nil {
		if _, err := docker(ctx, "pull", "--quiet", g.image); err != nil {
			return err
		}
		command, err = docker(ctx, "image", "inspect", "--format", "{{join .Config.Cmd \" \"}}", g.image)
	}
	if program, _, _ := strings.Cut(command, " "); strings.HasSuffix(program, "-server") {
		g.program = program
	}
	return err
}

// useInstalled takes the image without files, in which the redis-server of this machine finds itself and its libraries at
// their usual paths.
func (g *group) useInstalled(ctx context.Context, program string) error {
	g.image, g.program = bareImage, program
	needs := []string{"/usr", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache"}
	g.faketime, g.noFaketime = redisproc.FindFaketime()
	for _, file := range []string{program, g.faketime} {
		if file != "" && !strings.HasPrefix(file, "/usr/") {
			needs = append(needs, filepath.Dir(file))
		}
	}
	for _, path := range needs {
		if _, err := os.Stat(path); err == nil {
			g.binds = append(g.binds, path)
		}
	}
	_, err := docker(ctx, "image", "inspect", bareImage)
	if err != nil {
		_, err = docker(ctx, "import", "-", bareImage)
	}
	return err
}

// removeExpired removes the containers of expired groups. Other programs may remove them at the same time.
func removeExpired(ctx context.Context) error {
	format := fmt.Sprintf(`{{.ID}} {{.Label %q}} {{.Label %q}}`, expiresLabel, sharedLabel)
	list, err := docker(ctx, "ps", "--all", "--filter", "label="+expiresLabel, "--format", format)
	for line := range strings.Lines(list) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if at, err := strconv.ParseInt(fields[1], 10, 64); err != nil || time.Now().Unix() <= at {
			continue
		}
		_, _ = docker(ctx, "rm", "--force", "--volumes", fields[0])
		if strings.HasPrefix(filepath.Base(fields[2]), sharedPrefix) {
			_ = os.RemoveAll(fields[2])
		}
	}
	return err
}
