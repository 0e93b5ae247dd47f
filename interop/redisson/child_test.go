package redisson_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// childNodes turns the test binary into a process that acquires the lock on these nodes, reports it, and waits to be
// killed.
const childNodes = "QUORUMLOCK_TEST_NODES"

// childTTL is the TTL of the child's lock.
const childTTL = 2 * time.Second

func beChild() {
	nodes := os.Getenv(childNodes)
	if nodes == "" {
		return
	}
	client, err := quorumlock.New(quorumlock.Config{
		Addresses: strings.Split(nodes, ","), TTL: childTTL, MaxTTL: childTTL, Redisson: true,
	})
	if err != nil {
		panic(err)
	}
	lease, err := client.RedLock(name).Acquire(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Println(lease.Owner())
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // it ends with the test at the latest
	os.Exit(0)
}

// spawn starts such a process, and returns it and the owner of its lock.
func (f *fleet) spawn() (process *os.Process, owner string) {
	f.t.Helper()
	program, err := os.Executable()
	require.NoError(f.t, err)
	command := exec.Command(program)
	command.Env = append(os.Environ(), childNodes+"="+strings.Join(f.addresses(), ","))
	command.Stderr = os.Stderr
	_, err = command.StdinPipe()
	require.NoError(f.t, err)
	out, err := command.StdoutPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, command.Start())
	f.t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(f.t, err)
	return command.Process, strings.TrimSpace(line)
}

// TestAHolderInGoDies: a dead holder in Go is followed by one in Java after its TTL, and not before.
func TestAHolderInGoDies(t *testing.T) {
	f := newFleet(t, childTTL)
	caller := f.caller(watchdog)
	process, owner := f.spawn()
	f.owned(owner)
	require.NoError(t, process.Kill())
	f.locked(caller, redLock)
}

// TestAHolderInJavaDies: a dead holder in Java is followed by one in Go after the timeout of its watchdog.
func TestAHolderInJavaDies(t *testing.T) {
	java, err := startJava()
	java = needed(t, java, err)
	t.Cleanup(java.Kill)
	f := fleetOf(t, java, 10*time.Second)
	caller, lock := f.caller(2*time.Second), f.golang().RedLock(name)
	f.locked(caller, redLock)
	f.stays(lock, 3*time.Second)
	java.Kill()
	_, err = lock.TryAcquire(t.Context())
	require.ErrorIs(t, err, quorumlock.ErrHeld, "the nodes do not know yet")
	require.NoError(t, f.acquire(lock).Release(t.Context()))
}
