//go:build unix

package main

import (
	"debug/elf"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
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
	out, err = exec.Command(binary, "--version").Output()
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

// repository is a copy of this one, as it would be released.
type repository struct {
	dir string
	env []string
}

// newRepository copies the files of this repository that git knows or would add.
func newRepository(t *testing.T) *repository {
	t.Helper()
	dir := t.TempDir()
	r := &repository{dir: filepath.Join(dir, "quorumlock"), env: append(os.Environ(),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GOWORK=off")}
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	names, err := list.Output()
	require.NoError(t, err)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not committed
		}
		require.NoError(t, err)
		r.write(t, name, string(text))
	}
	r.must(t, "git", "init", "-q", "-b", "main")
	r.commit(t)
	return r
}

func (r *repository) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(r.dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func (r *repository) commit(t *testing.T) {
	t.Helper()
	r.must(t, "git", "add", "-A")
	r.must(t, "git", "commit", "-qm", "all")
}

func (r *repository) runIn(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = r.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r *repository) run(name string, args ...string) (string, error) {
	return r.runIn(r.dir, name, args...)
}

func (r *repository) must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := r.run(name, args...)
	require.NoError(t, err, "%s %s:\n%s", name, args, out)
	return out
}

// publish lets the go command find the tags of the repository, as if they were on GitHub. All other modules come from the
// module cache of the machine, so the test needs no network if that cache has them. What the test downloads goes into a
// cache of its own, because the tags mean nothing outside the test.
func (r *repository) publish(t *testing.T, modules []string) {
	t.Helper()
	for _, module := range append(modules, ".") { // fills the module cache of the machine
		out, err := r.run("go", "-C", module, "list", "-deps", "./...")
		require.NoError(t, err, out)
	}
	out := r.must(t, "go", "env", "GOMODCACHE")
	downloads := url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(strings.TrimSpace(out), "cache", "download"))}
	r.env = append(
		r.env,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+r.dir+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+library,
		"GOPRIVATE="+library, "GOSUMDB=off", "GOPROXY="+downloads.String(), "GOMODCACHE="+t.TempDir(),
		"GOFLAGS=-modcacherw -trimpath", // with -trimpath, packages come from the build cache, wherever their sources are
	)
}

const library = "github.com/quorumlock/quorumlock"

// published returns the modules below the root that programs import.
func published(t *testing.T) []string {
	t.Helper()
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	require.NoError(t, err)
	var modules []string
	for _, m := range regexp.MustCompile(`(?m)^\t\./(\S+)$`).FindAllStringSubmatch(string(work), -1) {
		if !regexp.MustCompile(`^(bench|examples)$`).MatchString(m[1]) {
			modules = append(modules, m[1])
		}
	}
	require.Len(t, modules, 4)
	return modules
}

// TestRelease: the script sets the version in each module that programs import, and tags each. A version whose modules
// lack it, or without notes, is refused. Then go get finds all that was tagged, and the next version of the root must
// compile with the adapters of this one.
func TestRelease(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	changes := "# Changelog\n\n## [Unreleased]\n\n- later\n\n## [1.8.7] - 2026-11-22\n\n- a\n- b\n\n## [1.8.6]\n\n- before\n"
	r.write(t, "CHANGELOG.md", changes)
	r.commit(t)
	modules := published(t)

	for _, version := range []string{"", "1.8.7", "v1.8", "v1.9.9"} {
		out, err := r.run("bash", ".ci/release", version)
		require.Error(t, err, out)
	}
	out, err := r.run("bash", ".ci/release", "check", "v1.8.7")
	require.Error(t, err)
	assert.Contains(t, out, "does not require "+library+" v1.8.7")
	assert.Equal(t, "\n- a\n- b\n", r.must(t, "bash", ".ci/release", "notes", "v1.8.7"))
	assert.Empty(t, r.must(t, "git", "tag"), "a version that was refused has no tag")

	assert.Contains(t, r.must(t, "bash", ".ci/release", "v1.8.7"), "git push --atomic origin HEAD v1.8.7 faultinject/v1.8.7 ")
	tags := strings.Fields(r.must(t, "git", "tag"))
	want := []string{"v1.8.7"}
	for _, name := range modules {
		want = append(want, name+"/v1.8.7")
		assert.Contains(t, r.must(t, "git", "show", "HEAD:"+name+"/go.mod"), library+" v1.8.7")
	}
	assert.ElementsMatch(t, want, tags)
	r.must(t, "bash", ".ci/release", "check", "v1.8.7")
	assert.Contains(t, r.must(t, "bash", ".ci/release", "adapters"), "no earlier release")

	r.publish(t, modules)
	for _, module := range append(modules, "") {
		requireGet(t, r, path.Join(library, module), "v1.8.7")
	}

	hooks := filepath.Join("measure", "hooks.go")
	text, err := os.ReadFile(filepath.Join(r.dir, hooks))
	require.NoError(t, err)
	r.write(t, hooks, string(text)+"\n// More is new.\nfunc More() {}\n")
	r.commit(t)
	assert.Contains(t, r.must(t, "bash", ".ci/release", "adapters"), "otel/v1.8.7 compiles")
	r.write(t, hooks, strings.Replace(string(text), "func Hooks(", "func Renamed(", 1))
	r.commit(t)
	out, err = r.run("bash", ".ci/release", "adapters")
	require.Error(t, err, out)
	assert.Contains(t, out, "undefined: measure.Hooks")
	assert.Contains(t, out, "otel/v1.8.7 does not compile with this root")

	r.must(t, "git", "reset", "-q", "--hard", "v1.8.7")
	r.must(t, "git", "tag", "-d", "otel/v1.8.7")
	out, err = r.run("bash", ".ci/release", "check", "v1.8.7")
	require.Error(t, err)
	assert.Contains(t, out, "the tag otel/v1.8.7 is missing")
}

// requireGet adds a module to a new program, finds all that its packages import, and compiles its main package.
func requireGet(t *testing.T, r *repository, module, version string) {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{
		{"mod", "init", "example.com/program"},
		{"get", module + "/...@" + version},
		{"list", "-deps", module + "/..."},
		{"build", module},
	} {
		out, err := r.runIn(dir, "go", args...)
		require.NoError(t, err, "go %s:\n%s", args, out)
	}
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
