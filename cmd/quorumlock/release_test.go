//go:build unix

package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// root is the root of the module. The tests build one after the other, because they compile the same packages.
const root = "../.."

// requireRelease runs a command that builds this one, and checks the result.
func requireRelease(t *testing.T, binary string, build *exec.Cmd) {
	t.Helper()
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.Command(binary, "version").Output()
	require.NoError(t, err)
	assert.Regexp(t, `^quorumlock v9\.8\.7 go1\.\S+ `+runtime.GOOS+`/`+runtime.GOARCH+`\n$`, string(out))
	if runtime.GOOS != "linux" {
		return
	}
	file, err := elf.Open(binary)
	require.NoError(t, err)
	defer file.Close()
	for _, part := range file.Progs {
		assert.NotEqual(t, elf.PT_INTERP, part.Type, "an image without files has nothing to load it with")
	}
}

// TestDockerfile: the commands of the image's build stage work. The image has all necessary files, and runs as the
// user nobody.
func TestDockerfile(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a release, all packages of Go included: make check")
	}
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.NoError(t, err)
	instructions := regexp.MustCompile(`(?m)^(FROM|ENV|WORKDIR|COPY|RUN|ARG|USER|ENTRYPOINT) (.+)$`).FindAllStringSubmatch(string(text), -1)
	require.Len(t, instructions, len(regexp.MustCompile(`(?m)^[^#\n]`).FindAllString(string(text), -1)), "every line is an instruction or a comment")
	var runs, last []string
	for _, i := range instructions {
		switch i[1] {
		case "FROM":
			last = nil
		case "RUN":
			runs = append(runs, i[2])
		}
		last = append(last, i[0])
	}
	assert.Equal(t, "FROM scratch", last[0])
	assert.Contains(t, last, "USER 65532:65532")
	assert.Contains(t, last, "COPY --from=build /quorumlock /usr/local/bin/quorumlock")
	assert.Contains(t, last, `ENTRYPOINT ["quorumlock"]`)

	version := regexp.MustCompile(`^go (\d+\.\d+)`)
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	require.NoError(t, err)
	newest := version.FindSubmatch(work)
	require.NotNil(t, newest)
	assert.Equal(t, "FROM golang:"+string(newest[1])+" AS build", instructions[0][0], "the Go that go.work asks for")

	binary := filepath.Join(t.TempDir(), "quorumlock")
	require.Len(t, runs, 2)
	build := strings.Replace(runs[1], "-o /quorumlock ", "-o "+binary+" ", 1)
	require.NotEqual(t, runs[1], build)
	cmd := exec.Command("sh", "-ec", runs[0]+"\n"+build)
	cmd.Env = append(os.Environ(), "GOWORK=off", "VERSION=v9.8.7")
	requireRelease(t, binary, cmd)
}

// TestGoReleaser: the commands and files of a release work. The fields are from GoReleaser 2.
func TestGoReleaser(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a release, all packages of Go included: make check")
	}
	text, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	require.NoError(t, err)
	var config struct {
		Version int
		Before  struct{ Hooks []string }
		Builds  []struct {
			Main, Binary        string
			Env, Flags, Ldflags []string
			Goos, Goarch        []string
		}
		Archives []struct{ Files []string }
	}
	require.NoError(t, yaml.Unmarshal(text, &config))
	assert.Equal(t, 2, config.Version)
	require.Len(t, config.Builds, 1)
	b := config.Builds[0]
	assert.Equal(t, "quorumlock", b.Binary)
	assert.Contains(t, b.Goos, "linux")
	assert.Contains(t, b.Goarch, "arm64")

	binary := filepath.Join(t.TempDir(), b.Binary)
	require.Len(t, b.Ldflags, 1)
	flags := append([]string{"build", "-ldflags", strings.ReplaceAll(b.Ldflags[0], "{{ .Tag }}", "v9.8.7"), "-o", binary}, b.Flags...)
	cmd := exec.Command("go", append(flags, b.Main)...)
	cmd.Env = append(os.Environ(), b.Env...)
	requireRelease(t, binary, cmd)

	// The hooks create the files for the archives.
	dir := t.TempDir()
	for _, hook := range config.Before.Hooks {
		hook = strings.ReplaceAll(strings.ReplaceAll(hook, "go run ./cmd/quorumlock", binary), "build/", dir+"/build/")
		out, err := exec.Command("sh", "-ec", hook).CombinedOutput()
		require.NoError(t, err, "%s: %s", hook, out)
	}
	require.Len(t, config.Archives, 1)
	for _, pattern := range config.Archives[0].Files {
		in := root
		if strings.HasPrefix(pattern, "build/") {
			in = dir
		}
		files, err := filepath.Glob(filepath.Join(in, pattern))
		require.NoError(t, err)
		assert.NotEmpty(t, files, pattern)
	}
}
