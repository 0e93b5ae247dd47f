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
		Archives []struct{ Files []packed }
		Nfpms    []struct {
			Formats  []string
			Contents []struct{ Src, Dst string }
		}
		Sboms, Signs []struct{ Artifacts string }
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
	require.Len(t, config.Nfpms, 1)
	var sources []string
	for _, f := range config.Archives[0].Files {
		sources = append(sources, f.Src)
		assert.Equal(t, strings.HasPrefix(f.Src, "build/"), f.StripParent, "%s: no archive has the directory of the build", f.Src)
	}
	for _, c := range config.Nfpms[0].Contents {
		sources = append(sources, c.Src)
		assert.Regexp(t, "^/usr/share/", c.Dst)
	}
	for _, pattern := range sources {
		in := root
		if strings.HasPrefix(pattern, "build/") {
			in = dir
		}
		files, err := filepath.Glob(filepath.Join(in, pattern))
		require.NoError(t, err)
		assert.NotEmpty(t, files, pattern)
	}
	assert.Equal(t, []string{"deb", "rpm"}, config.Nfpms[0].Formats)
	assert.Len(t, config.Sboms, 2)
	require.Len(t, config.Signs, 1)
	assert.Equal(t, "checksum", config.Signs[0].Artifacts)
}

// packed is a file of an archive: a pattern, or one with a place.
type packed struct {
	Src         string
	StripParent bool `yaml:"strip_parent"`
}

func (p *packed) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		return n.Decode(&p.Src)
	}
	type plain packed
	return n.Decode((*plain)(p))
}

// TestReleaseScript: the script sets the version in each module that programs import, and tags each. A version whose
// modules lack it, or without notes, is refused.
func TestReleaseScript(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(name string, args ...string) string {
		t.Helper()
		out, err := run(name, args...)
		require.NoError(t, err, out)
		return out
	}
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	require.NoError(t, err)
	var published []string
	for _, m := range regexp.MustCompile(`(?m)^\t\./(\S+)$`).FindAllStringSubmatch(string(work), -1) {
		if !regexp.MustCompile(`^(bench|interop|deploy|examples)\b`).MatchString(m[1]) {
			published = append(published, m[1])
		}
	}
	require.Len(t, published, 5)
	for _, name := range published {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		text, err := os.ReadFile(filepath.Join(root, name, "go.mod"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "go.mod"), text, 0o600))
	}
	script, err := os.ReadFile(filepath.Join(root, ".ci/release"))
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".ci"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".ci/release"), script, 0o600))
	log := "# Changelog\n\n## [Unreleased]\n\n- later\n\n## [1.8.7] - 2026-11-22\n\n- a\n- b\n\n## [1.8.6]\n\n- before\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte(log), 0o600))
	must("git", "init", "-q", "-b", "main")
	must("git", "add", ".")
	must("git", "commit", "-qm", "all")

	for _, version := range []string{"", "1.8.7", "v1.8", "v1.9.9"} {
		out, err := run("bash", ".ci/release", version)
		require.Error(t, err, out)
	}
	out, err := run("bash", ".ci/release", "check", "v1.8.7")
	require.Error(t, err)
	assert.Contains(t, out, "does not require github.com/quorumlock/quorumlock v1.8.7")
	assert.Equal(t, "\n- a\n- b\n", must("bash", ".ci/release", "notes", "v1.8.7"))
	assert.Empty(t, must("git", "tag"), "a version that was refused has no tag")

	assert.Contains(t, must("bash", ".ci/release", "v1.8.7"), "git push --atomic origin HEAD v1.8.7 faultinject/v1.8.7 ")
	tags := strings.Fields(must("git", "tag"))
	want := []string{"v1.8.7"}
	for _, name := range published {
		want = append(want, name+"/v1.8.7")
		assert.Contains(t, must("git", "show", "HEAD:"+name+"/go.mod"), "github.com/quorumlock/quorumlock v1.8.7")
	}
	assert.ElementsMatch(t, want, tags)
	must("bash", ".ci/release", "check", "v1.8.7")
	must("git", "tag", "-d", "otel/v1.8.7")
	out, err = run("bash", ".ci/release", "check", "v1.8.7")
	require.Error(t, err)
	assert.Contains(t, out, "the tag otel/v1.8.7 is missing")
}

// TestReleaseWorkflow: nothing is published before the checks have passed, and each job has only the rights that it needs.
func TestReleaseWorkflow(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, ".github/workflows/release.yml"))
	require.NoError(t, err)
	var w struct {
		On          struct{ Push struct{ Tags []string } }
		Permissions map[string]string
		Jobs        map[string]struct {
			Needs       string
			Permissions map[string]string
			Steps       []struct{ Uses, Run string }
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &w))
	assert.Equal(t, []string{"v*"}, w.On.Push.Tags, "a tag of another module has a slash, and starts nothing")
	assert.Equal(t, map[string]string{"contents": "read"}, w.Permissions)
	var commands []string
	for name, job := range w.Jobs {
		if name == "check" {
			assert.Empty(t, job.Permissions)
		} else {
			assert.Equal(t, "check", job.Needs, name)
			assert.Equal(t, "write", job.Permissions["id-token"], name)
		}
		for _, step := range job.Steps {
			commands = append(commands, step.Run)
			if step.Uses != "" {
				assert.Regexp(t, `^[\w-]+/[\w-]+(/[\w-]+)?@v\d+$`, step.Uses)
			}
		}
	}
	assert.Contains(t, commands, "bash .ci/run")
	assert.Contains(t, commands, `bash .ci/release check "$GITHUB_REF_NAME"`)
}
