//go:build unix

package realtest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
)

// soakTTL is the TTL of a soak's locks. A dead holder may block others for that time.
const soakTTL = 2 * time.Second

// habits describes how the workers of a soak use a lock.
type habits struct {
	// workers is the number of workers per process.
	workers int
	// hold and pause are the longest times with and without the lock.
	hold, pause time.Duration
	// impatient workers sometimes give up soon.
	impatient bool
}

// soakLocks are the locks of a soak. One lock has many contenders. The other one has few, which poll rarely, so each grant
// depends on a single wake.
var soakLocks = map[string]habits{
	"crowded": {workers: 4, hold: 20 * time.Millisecond, pause: time.Millisecond, impatient: true},
	"quiet":   {workers: 1, hold: 300 * time.Millisecond, pause: 600 * time.Millisecond},
}

// tenancy is a worker's record of a lock. The worker writes it at the grant and again after the
// release.
type tenancy struct {
	Lock  string
	Token uint64
	// Asked is the start of the wait.
	Asked, Had time.Duration
	// Released is the time at which Release returned, or 0. Undelivered is set if the release did
	// not reach enough nodes. The lock then expires by its TTL.
	Released    time.Duration
	Undelivered bool
}

func init() { childRoles["soak"] = soakInProcess }

// soakInProcess is the role "soak": it contends until its input ends.
func soakInProcess(t *testing.T) {
	file, err := os.Create(filepath.Join(os.Getenv(childDir), strconv.Itoa(os.Getpid())))
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	out := &output{w: file}
	client := newClient(t, func(cfg *quorumlock.Config) {
		cfg.Addresses = strings.Split(os.Getenv(childNodes), ",")
		cfg.TTL, cfg.NodeTimeoutMin, cfg.NodeTimeoutMax = soakTTL, 0, 200*time.Millisecond
	})
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for name, habits := range soakLocks {
		for range habits.workers {
			workers.Go(func() { habits.contend(ctx, client, name, out) })
		}
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
	}
	cancel()
	workers.Wait()
	closeClient(t, client)
	fmt.Println("done")
}

// contend runs a worker's loop. It picks any of the ordered ways to wait.
func (h habits) contend(ctx context.Context, client *quorumlock.Client, name string, out *output) {
	ways := []quorumlock.LockOptions{{}, {NoHandover: true}}
	for ctx.Err() == nil {
		patience := time.Minute
		if h.impatient && rand.IntN(4) == 0 {
			patience = shorter(200 * time.Millisecond)
		}
		is := tenancy{Lock: name, Asked: now()}
		try, cancel := context.WithTimeout(ctx, patience)
		lease, err := client.RedLock(name).With(ways[rand.IntN(len(ways))]).Acquire(try)
		cancel()
		if err != nil {
			continue
		}
		is.Token, is.Had = lease.Token(), now()
		out.say(encode(is))
		pause(shorter(h.hold))
		is.Undelivered = lease.Release(ctx) != nil
		is.Released = now()
		out.say(encode(is))
		pause(shorter(h.pause))
	}
}

func shorter(than time.Duration) time.Duration { return time.Duration(rand.Int64N(int64(than))) }

// now returns the time of a clock that all processes of this machine share.
func now() time.Duration { return clock.System().Now() }

// pause stands for work. It is no synchronization.
func pause(d time.Duration) {
	if d > 0 {
		time.Sleep(d)
	}
}

// output is the output of a process. It writes whole lines only.
type output struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *output) say(words ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintln(o.w, words...)
}

func encode(what any) string {
	text, err := json.Marshal(what)
	if err != nil {
		panic(err) // This cannot happen for the structs above.
	}
	return string(text)
}
