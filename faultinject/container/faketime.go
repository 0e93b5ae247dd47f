package container

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ory/dockertest/v3/docker"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// sharedDir is the container's directory for configuration, clock and libfaketime, which this program writes.
const sharedDir = "/faultinject"

// sharedPrefix is the prefix of that directory's name on this machine.
const sharedPrefix = "quorumlock-faultinject"

const (
	libraryName = "libfaketime.so"
	clockName   = "clock"
)

// faketime says whether and how clocks can be stepped.
type faketime struct {
	library string // here; empty where they cannot
	why     string // why clocks cannot be stepped
}

// findFaketime looks for a libfaketime that fits the image. The image made here always fits. Others are tested,
// because they may have another C library, or be for another machine.
func findFaketime(ctx context.Context, client *docker.Client, img image, trueClock bool) (faketime, error) {
	if trueClock {
		return faketime{why: "the server was started with the true clock"}, nil
	}
	library, err := redisproc.FindFaketime()
	if err != nil {
		return faketime{why: err.Error()}, nil
	}
	if img.made {
		return faketime{library: library}, nil
	}
	return try(ctx, client, img, library)
}

// try runs the image's server under the library and asks for its version. A dynamic linker that cannot load the
// library complains; it may continue or not.
func try(ctx context.Context, client *docker.Client, img image, library string) (faketime, error) {
	dir, err := shareDir(library)
	if err != nil {
		return faketime{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	told, code, err := runOnce(ctx, client, img, dir)
	if err != nil {
		return faketime{}, fmt.Errorf("faultinject: try %s in %s: %w", library, img.ref, err)
	}
	if code != 0 || bytes.Contains(told, []byte("cannot be preloaded")) {
		return faketime{why: fmt.Sprintf("%s does not fit the image %s: %s", library, img.ref, bytes.TrimSpace(told))}, nil
	}
	return faketime{library: library}, nil
}

func runOnce(ctx context.Context, client *docker.Client, img image, dir string) (told []byte, code int, err error) {
	c, err := client.CreateContainer(docker.CreateContainerOptions{
		Config: &docker.Config{
			Image: img.ref, Entrypoint: []string{img.program}, Cmd: []string{"--version"}, User: "0",
			Env: faketimeEnv(img), Labels: (&group{id: "try", expires: time.Now().Add(time.Minute)}).labels(),
		},
		HostConfig: &docker.HostConfig{Binds: []string{bind(dir)}, NetworkMode: "none"},
		Context:    ctx,
	})
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		_ = client.RemoveContainer(docker.RemoveContainerOptions{ID: c.ID, Force: true, RemoveVolumes: true})
	}()
	if err := client.StartContainerWithContext(c.ID, nil, ctx); err != nil {
		return nil, 0, err
	}
	if code, err = client.WaitContainerWithContext(c.ID, ctx); err != nil {
		return nil, 0, err
	}
	told, err = logs(ctx, client, c.ID)
	return told, code, err
}

// logs are the last lines that a container wrote.
func logs(ctx context.Context, client *docker.Client, id string) ([]byte, error) {
	var out bytes.Buffer
	err := client.Logs(docker.LogsOptions{
		Context: ctx, Container: id, OutputStream: &out, ErrorStream: &out, Stdout: true, Stderr: true, Tail: "20",
	})
	return out.Bytes(), err
}

func faketimeEnv(img image) []string {
	env := redisproc.FaketimeEnv(sharedDir+"/"+libraryName, sharedDir+"/"+clockName)
	return append(env, img.env...)
}

// bind mounts a directory of this machine. The option z shares it on machines that label their files.
func bind(dir string) string { return dir + ":" + sharedDir + ":ro,z" }

// shareDir makes a directory that a container may read, with the library if there is one.
func shareDir(library string) (dir string, err error) {
	if dir, err = os.MkdirTemp("", sharedPrefix); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil || library == "" {
		return dir, err
	}
	if err := copyFile(filepath.Join(dir, libraryName), library); err != nil {
		return "", err
	}
	return dir, redisproc.WriteClock(filepath.Join(dir, clockName), 0)
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}
