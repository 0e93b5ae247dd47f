package container

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/ory/dockertest/v3/docker"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// dataDir is where servers keep their data, in their container.
const dataDir = "/data"

// The image without files, in which the installed server runs.
const (
	bareName = "quorumlock-faultinject"
	bareTag  = "bare"
)

// ImageEnv is the environment variable that names the image of the containers, such as valkey/valkey:8-bookworm.
const ImageEnv = "QUORUMLOCK_REDIS_IMAGE"

// publicImage is the image where no server is installed.
const publicImage = "redis:7.2-bookworm"

type image struct {
	ref     string
	program string
	binds   []string // files and directories of this machine that the program needs
	// faketime is the path of libfaketime; noFaketime says why there is none.
	faketime   string
	noFaketime error
}

// findImage returns the image that the environment names, the installed server, or else the public image.
func findImage(ctx context.Context, client *docker.Client) (image, error) {
	program, err := exec.LookPath("redis-server")
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if ref := os.Getenv(ImageEnv); ref != "" || err != nil || runtime.GOOS != "linux" {
		return pulled(ctx, client, cmp.Or(ref, publicImage))
	}
	return installed(ctx, client, program)
}

// pulled returns a named image, which it pulls if the engine does not have it.
func pulled(ctx context.Context, client *docker.Client, ref string) (image, error) {
	found, err := client.InspectImage(ref)
	if errors.Is(err, docker.ErrNoSuchImage) {
		repository, tag := docker.ParseRepositoryTag(ref)
		err = client.PullImage(
			docker.PullImageOptions{Repository: repository, Tag: cmp.Or(tag, "latest"), Context: ctx}, docker.AuthConfiguration{})
		if err == nil {
			found, err = client.InspectImage(ref)
		}
	}
	if err != nil {
		return image{}, fmt.Errorf("faultinject: pull the image %s: %w", ref, err)
	}
	img := image{ref: ref, program: "redis-server", noFaketime: errors.New("the servers of a named image have the true clock")}
	if found.Config != nil && len(found.Config.Cmd) > 0 && strings.HasSuffix(path.Base(found.Config.Cmd[0]), "-server") {
		img.program = found.Config.Cmd[0]
	}
	return img, nil
}

// installed returns an image without files, in which the redis-server of this machine finds itself and its libraries
// at their usual paths.
func installed(ctx context.Context, client *docker.Client, program string) (image, error) {
	img := image{ref: bareName + ":" + bareTag, program: program}
	needs := []string{"/usr", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache"}
	img.faketime, img.noFaketime = redisproc.FindFaketime()
	for _, file := range []string{program, img.faketime} {
		if file != "" && !strings.HasPrefix(file, "/usr/") {
			needs = append(needs, filepath.Dir(file))
		}
	}
	for _, path := range needs {
		if _, err := os.Stat(path); err == nil {
			img.binds = append(img.binds, path+":"+path+":ro")
		}
	}
	if _, err := client.InspectImage(img.ref); err == nil {
		return img, nil
	}
	return img, importBare(ctx, client)
}

// importBare makes the image without files. It has only the directories in which a server writes.
func importBare(ctx context.Context, client *docker.Client) error {
	var files, told bytes.Buffer
	w := tar.NewWriter(&files)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o777})
	err = errors.Join(err, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(dataDir, "/") + "/", Mode: 0o777}), w.Close())
	if err == nil {
		err = client.ImportImage(docker.ImportImageOptions{
			Repository: bareName, Tag: bareTag, Source: "-", InputStream: &files, OutputStream: &told, Context: ctx,
		})
	}
	if err != nil {
		return fmt.Errorf("faultinject: make an image for the installed redis-server: %w %s", err, told.Bytes())
	}
	return nil
}
