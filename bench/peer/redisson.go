package peer

import (
	"context"
	"os/exec"
	"time"

	"github.com/quorumlock/quorumlock/interop/redisson"
)

var (
	redissonRedLock = redissonPeer("redisson-redlock", 0,
		"Redisson's RedissonRedLock, in Java: its RLock on one node after the other, until a majority has it.")
	redissonMultiLock = redissonPeer("redisson-multilock", 0,
		"Redisson's RedissonMultiLock, in Java: its RLock on one node after the other, on all of them.")
	redissonOne = redissonPeer("redisson-1node", 1,
		"Redisson's RLock, in Java: a lock on one node, which is lost with that node.")
)

// redissonPeer is a lock of Redisson. Its watchdog renews the lock, as this library does.
func redissonPeer(name string, most int, about string) Peer {
	return Peer{
		Name: name, Kind: Other, Waits: true, Renews: true, Most: most,
		About:     about + " Its callers are threads; the compiler of Java has 3 seconds to warm up; allocations are not counted.",
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
