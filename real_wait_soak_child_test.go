//go:build unix

package quorumlock_test

import (
	"bufio"
	"context"
	"fmt"
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
)

// soakTTL is the TTL of the locks of a soak: for so long a dead holder lawfully blocks others.
const soakTTL = 2 * time.Second

// soakLocks are the locks of a soak, and how many workers each process has for them: where
// many wait, and where each grant depends on a single wake.
var soakLocks = map[string]int{"crowded": 4, "lonely": 1}

// tenancy is what a worker of a soak writes when it has a lock, and again when it has released it.
type tenancy struct {
	Lock  string
	Token uint64
	Had   time.Duration
	// Released is when Release returned, or 0; Undelivered is set if it did not reach enough
	// nodes, so that the lock runs out by itself.
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
		cfg.TTL, cfg.NodeTimeoutMax = soakTTL, 200*time.Millisecond
	})
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for name, n := range soakLocks {
		for range n {
			workers.Go(func() { contend(ctx, client, name, out) })
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

// contend is the life of a worker, who waits in any way that has an order, and at times not for long.
func contend(ctx context.Context, client *quorumlock.Client, name string, out *output) {
	ways := []quorumlock.LockOptions{{}, {NoHandover: true}, {Waiting: quorumlock.WaitFair}}
	for ctx.Err() == nil {
		patience := time.Minute
		if rand.IntN(4) == 0 {
			patience = time.Duration(rand.Int64N(int64(200 * time.Millisecond)))
		}
		try, cancel := context.WithTimeout(ctx, patience)
		lease, err := client.RedLock(name).With(ways[rand.IntN(len(ways))]).Acquire(try)
		cancel()
		if err != nil {
			continue
		}
		is := tenancy{Lock: name, Token: lease.Token(), Had: now()}
		out.say(encode(is))
		pause(time.Duration(rand.Int64N(int64(20 * time.Millisecond))))
		is.Undelivered = lease.Release(ctx) != nil
		is.Released = now()
		out.say(encode(is))
	}
}
