package peer

import (
	"context"
	"os/exec"
	"time"

	"github.com/quorumlock/quorumlock/bench/redisson"
)

var (
	redissonRedLock   = redissonPeer("redisson-redlock")
	redissonMultiLock = redissonPeer("redisson-multilock")
)

// redissonPeer is a lock of Redisson. Its watchdog renews the lock, as this library does. Its callers are threads, and the
// compiler of Java has 3 seconds to warm up.
func redissonPeer(name string) Peer {
	return Peer{
		Name: name, Waits: true,
		Worker:    redissonWorker,
		Available: redisson.Available,
	}
}

func redissonWorker() (*exec.Cmd, error) {
	const most = 5 * time.Minute // the first time, when it is built
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	jar, err := redisson.Build(ctx)
	if err != nil {
		return nil, err
	}
	return redisson.Command(jar, "bench"), nil
}
