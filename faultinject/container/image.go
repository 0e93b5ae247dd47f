package container

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// image is what the containers run.
type image struct {
	program string
	binds   []string // files and directories of this machine that the program needs
	// faketime is the path of libfaketime; noFaketime says why there is none.
	faketime   string
	noFaketime error
}

// installed returns an image without files, in which the redis-server of this machine finds itself and its libraries
// at their usual paths.
func installed(ctx context.Context, client *docker.Client) (image, error) {
	if runtime.GOOS != "linux" {
		return image{}, fmt.Errorf("faultinject: the installed redis-server is for %s, and containers run Linux: use package process", runtime.GOOS)
	}
	program, err := exec.LookPath("redis-server")
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return image{}, fmt.Errorf("faultinject: find the installed redis-server: %w", err)
	}
	img := image{program: program}
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
	if _, err := client.InspectImage(bareName + ":" + bareTag); err == nil {
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
