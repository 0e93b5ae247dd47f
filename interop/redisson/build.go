// Package redisson takes the locks of Redisson, the client for Java, on behalf of tests and
// benchmarks in Go: through a small program in Java, which it builds with Maven and runs.
package redisson

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// ErrMissing is why there is no program where Maven or the JDK is not installed.
var ErrMissing = errors.New("no program in Java: that needs Maven and a JDK of version 17 or newer on PATH")

//go:embed pom.xml src
var source embed.FS

const (
	program = "peer.jar"
	// waitDelay is how long a process that was killed may take to let go of its pipes.
	waitDelay = 5 * time.Second
)

// Available is nil where the program can be built and run, and else an [ErrMissing].
func Available() error {
	for _, tool := range []string{"mvn", "javac", "java"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: %w", ErrMissing, err)
		}
	}
	return nil
}

// Build builds the program, and returns the path of its jar. It is kept in the user's cache,
// so it is built only once, and again when its source has changed. What it is built from is
// downloaded into Maven's local repository where it is not there yet: ctx bounds that.
func Build(ctx context.Context) (jar string, err error) {
	if err := Available(); err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache: %w", err)
	}
	key, err := sourceKey()
	if err != nil {
		return "", err
	}
	kept := filepath.Join(cache, "quorumlock", "redisson-"+key)
	jar = filepath.Join(kept, program)
	if _, err := os.Stat(jar); err == nil {
		return jar, nil
	}
	if err := os.MkdirAll(kept, 0o755); err != nil {
		return "", fmt.Errorf("make the cache: %w", err)
	}
	work, err := os.MkdirTemp(kept, "build-")
	if err != nil {
		return "", fmt.Errorf("make the cache: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := os.CopyFS(work, source); err != nil {
		return "", fmt.Errorf("write the source: %w", err)
	}
	if err := compile(ctx, work); err != nil {
		return "", err
	}
	return jar, os.Rename(filepath.Join(work, "target", program), jar)
}

// compile has Maven do it, which asks nobody where it has all that it needs.
func compile(ctx context.Context, dir string) error {
	if maven(ctx, dir, "--offline") == nil {
		return nil
	}
	return maven(ctx, dir)
}

func maven(ctx context.Context, dir string, args ...string) error {
	mvn := exec.CommandContext(ctx, "mvn", append(args, "--batch-mode", "--quiet", "package")...)
	mvn.Dir, mvn.WaitDelay = dir, waitDelay
	out, err := mvn.CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the program in Java: %w\n%s", errors.Join(err, ctx.Err()), out)
	}
	return nil
}

// sourceKey changes with the source.
func sourceKey() (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(source, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := source.ReadFile(path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:16], err
}

// Command is the program, to be started, in one of its roles: "serve", as [Start] does, or
// "bench". It ends when its input does. Its memory is bounded.
func Command(jar, role string) *exec.Cmd {
	return exec.Command("java", "-Xmx256m", "-Xss512k", "-XX:+UseSerialGC",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-jar", jar, role)
}
