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
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // The child ends with the test at the latest.
	os.Exit(0)
}

// spawn starts a child process, and returns it and the owner of its lock.
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

// TestLockOfDeadGoHolderExpires: a holder in Go is killed. A caller in Java gets the lock after its TTL.
func TestLockOfDeadGoHolderExpires(t *testing.T) {
	f := newFleet(t, childTTL)
	caller := f.caller(watchdog)
	process, owner := f.spawn()
	f.owned(owner)
	require.NoError(t, process.Kill())
	f.locked(caller, redLock)
}

// TestLockOfDeadJavaHolderExpires: a holder in Java is killed. A caller in Go gets the lock after the timeout of
// Redisson's watchdog.
func TestLockOfDeadJavaHolderExpires(t *testing.T) {
	java, err := startJava()
	java = needed(t, java, err)
	t.Cleanup(java.Kill)
	f := fleetOf(t, java, 10*time.Second)
	const ttl = 3 * time.Second
	caller, lock := f.caller(ttl), f.golang().RedLock(name)
	f.locked(caller, redLock)
	f.stays(lock, ttl*3/2)
	killed := time.Now()
	java.Kill()
	_, err = lock.TryAcquire(t.Context())
	// The last renewal was a third of the TTL ago at most, if the machine let it come in time.
	require.ErrorIs(t, err, quorumlock.ErrHeld, "the lock has not expired yet, %v after the kill", time.Since(killed))
	require.NoError(t, f.acquire(lock).Release(t.Context()))
}
