package redisproc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// ProgramEnv is the environment variable that names the program of all servers without [WithProgram]: a path, or a
// name on PATH. The default is redis-server.
const ProgramEnv = "QUORUMLOCK_REDIS_SERVER"

// The servers of other versions, which `.ci/servers fetch` downloads.
const (
	// TooOld ignores min-replicas-to-write in scripts, so the library refuses it.
	TooOld = "redis-6.2.5"
	// Oldest is the oldest series that the library supports.
	Oldest = "redis-6.2.14"
	// NewestRedis and NewestValkey are the newest that can be fetched.
	NewestRedis  = "redis-8.2.3"
	NewestValkey = "valkey-9.1.2"
)

var errNoBinary = errors.New("redis-server is not on PATH: install it with `make setup`, or from https://redis.io/docs/latest/operate/oss_and_stack/install/")

// Fetched returns the program of a server of another version. A test ends as not run if that server was not
// fetched. If QUORUMLOCK_SERVERS is "required", the test fails instead.
func Fetched(t testing.TB, server string) (path string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	path = filepath.Join(cache, "quorumlock", "servers", server, "redis-server")
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		testkit.Missing(t, os.Getenv("QUORUMLOCK_SERVERS") == "required", "the server %s, which `.ci/servers fetch` brings", server)
	}
	return path
}

func (c *config) serverProgram() string {
	return cmp.Or(c.program, os.Getenv(ProgramEnv), "redis-server")
}

func (c *config) findProgram() error {
	program := c.serverProgram()
	if _, err := exec.LookPath(program); err == nil {
		return nil
	} else if program != "redis-server" {
		return fmt.Errorf("the program of the server, by $%s: %w", ProgramEnv, err)
	}
	return errNoBinary
}

// IsBefore7 reports whether the program of the server says that its version is 6.
func (s *Server) IsBefore7() bool {
	text, err := exec.Command(s.conf.serverProgram(), "--version").Output()
	return err == nil && bytes.Contains(text, []byte(" v=6."))
}

// Needs7 ends a test as not run on a server before 7.0, which lacks the feature.
func Needs7(t testing.TB, s *Server, feature string) {
	t.Helper()
	if s.IsBefore7() {
		testkit.Missing(t, false, "%s, of Redis 7.0", feature)
	}
}
