package container

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/ory/dockertest/v3/docker"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// repository is the name of the images made here.
const repository = "quorumlock-faultinject"

// dataDir is where servers keep their data, in their container.
const dataDir = "/data"

// importInstalled makes an image of the redis-server on PATH and its libraries, unless the engine has it. The tag
// depends only on the contents.
func importInstalled(ctx context.Context, client *docker.Client, why string) (image, error) {
	program, err := installedServer()
	if err != nil {
		return image{}, fmt.Errorf("faultinject: make an image of the installed redis-server: %w", err)
	}
	files, err := linked(ctx, program)
	if err != nil {
		return image{}, fmt.Errorf("faultinject: make an image of %s: %w", program, err)
	}
	contents, err := archive(files)
	if err != nil {
		return image{}, fmt.Errorf("faultinject: make an image of %s: %w", program, err)
	}
	digest := sha256.Sum256(contents)
	tag := fmt.Sprintf("%s-%x", version(ctx, program), digest[:6])
	img := image{
		ref: repository + ":" + tag, program: program, env: searchPath(files),
		why: fmt.Sprintf("made of %s; %s", program, why), made: true,
	}
	if _, err := client.InspectImage(img.ref); err == nil {
		return img, nil
	}
	var told bytes.Buffer
	err = client.ImportImage(docker.ImportImageOptions{
		Repository: repository, Tag: tag, Source: "-",
		InputStream: bytes.NewReader(contents), OutputStream: &told, Context: ctx,
	})
	if err != nil {
		return image{}, fmt.Errorf("faultinject: import an image of %s: %w %s", program, err, told.Bytes())
	}
	return img, nil
}

// installedServer returns the path of redis-server. It does not resolve links: the target may be a program that
// depends on its name.
func installedServer() (string, error) {
	found, err := exec.LookPath("redis-server")
	if err != nil {
		return "", err
	}
	return filepath.Abs(found)
}

// version returns the version that a server reports, such as 7.0.15.
func version(ctx context.Context, program string) string {
	told, _ := exec.CommandContext(ctx, program, "--version").Output()
	if v := regexp.MustCompile(`v=([0-9.]+)`).FindSubmatch(told); v != nil {
		return string(v[1])
	}
	return "unknown"
}

// linked returns the sorted paths of a program and its libraries. They include the libraries of libfaketime, if that
// is installed.
func linked(ctx context.Context, program string) ([]string, error) {
	loader, err := loader(program)
	if err != nil {
		return nil, err
	}
	files := []string{program}
	if loader == "" {
		return files, nil // a static program
	}
	files = append(files, loader)
	needing := []string{program}
	if faketime, err := redisproc.FindFaketime(); err == nil {
		needing = append(needing, faketime)
	}
	for _, file := range needing {
		libraries, err := listLinked(ctx, loader, file)
		if err != nil {
			return nil, err
		}
		files = append(files, libraries...)
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// searchPath makes the dynamic linker find the libraries without this machine's cache.
func searchPath(files []string) []string {
	var dirs []string
	for _, f := range files {
		dirs = append(dirs, path.Dir(f))
	}
	slices.Sort(dirs)
	return []string{"LD_LIBRARY_PATH=" + strings.Join(slices.Compact(dirs), ":")}
}

// loader returns the dynamic linker that a program names, empty for a static one.
func loader(program string) (string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return "", fmt.Errorf("not a program for Linux: %w", err)
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name := make([]byte, p.Filesz)
			_, err := p.ReadAt(name, 0)
			return strings.TrimRight(string(name), "\x00"), err
		}
	}
	return "", nil
}

// listLinked asks the dynamic linker for the libraries of a file, as ldd does.
func listLinked(ctx context.Context, loader, file string) ([]string, error) {
	list, err := exec.CommandContext(ctx, loader, "--list", file).Output()
	if err != nil {
		return nil, fmt.Errorf("list the libraries of %s: %w", file, err)
	}
	return parseLinked(string(list))
}

// parseLinked reads lines such as "libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)". A line without a path is
// about the kernel, or the linker itself.
func parseLinked(list string) (paths []string, err error) {
	for line := range strings.Lines(list) {
		name, where, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			continue
		}
		found, _, _ := strings.Cut(where, " (")
		if !filepath.IsAbs(found) {
			return nil, fmt.Errorf("%s: %s", name, found)
		}
		paths = append(paths, found)
	}
	return paths, nil
}

// archive is a file system with the files and an empty data directory. It has no times and owners, so that it is
// reproducible.
func archive(files []string) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, dir := range []string{"tmp", strings.TrimPrefix(dataDir, "/")} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o777}); err != nil {
			return nil, err
		}
	}
	for _, file := range files {
		contents, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		head := &tar.Header{Name: strings.TrimPrefix(path.Clean(file), "/"), Mode: 0o755, Size: int64(len(contents))}
		if err := w.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := w.Write(contents); err != nil {
			return nil, err
		}
	}
	return buf.Bytes(), w.Close()
}
