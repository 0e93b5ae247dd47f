// Package redisson drives Redisson, the Java client, from tests and benchmarks in Go: through a small Java program,
// which it builds with Maven and runs.
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

// ErrMissing means that Maven or the JDK is not installed.
var ErrMissing = errors.New("no program in Java: that needs Maven and a JDK of version 17 or newer on PATH")

//go:embed pom.xml src
var source embed.FS

const (
	program = "peer.jar"
	// waitDelay is how long a killed process may take to close its pipes.
	waitDelay = 5 * time.Second
)

// Available returns nil if the program can be built and run, and an [ErrMissing] otherwise.
func Available() error {
	for _, tool := range []string{"mvn", "javac", "java"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: %w", ErrMissing, err)
		}
	}
	return nil
}

// Build builds the program, and returns the path of its jar. The jar is kept in the user's cache, so it is built only
// once, and again when its source has changed. Missing dependencies are downloaded into Maven's local repository; ctx
// bounds that.
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

// compile runs Maven, which is offline if it has all dependencies.
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

// sourceKey returns a digest of the source.
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

// Command returns the unstarted program in one of its roles: "serve", as for [Start], or "bench". It ends when its
// input ends. Its memory is bounded.
func Command(jar, role string) *exec.Cmd {
	return exec.Command("java", "-Xmx256m", "-Xss512k", "-XX:+UseSerialGC",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-jar", jar, role)
}
