// Command quorumlock runs commands under a distributed lock over independent Redis
// nodes, opens new nodes and checks them, counts latches down, shows, watches and breaks
// locks, and demonstrates them without any server.
//
//	quorumlock init --nodes a:6379,b:6379,c:6379
//	quorumlock ready --nodes a:6379,b:6379,c:6379
//	quorumlock doctor --nodes a:6379,b:6379,c:6379
//	quorumlock run --nodes a:6379,b:6379,c:6379 --key nightly -- ./backup.sh
//	quorumlock latch await import --nodes a:6379,b:6379,c:6379
//	quorumlock status nightly --nodes a:6379,b:6379,c:6379
//	quorumlock top --nodes a:6379,b:6379,c:6379
//	quorumlock release --force nightly --nodes a:6379,b:6379,c:6379
//	quorumlock demo
//
// # Exit codes
//
//	0        success; run: the command's own status, whatever it is
//	1, 2     doctor: warnings, errors
//	120      the lock was held by another, or a latch not done, when --wait was over
//	121      no quorum: too few nodes answered, agreed or are ready; init: not all are open
//	122      the lease was lost, or --max-hold was over: the command was stopped
//	125      wrong usage, or another failure of quorumlock itself
//	126      the command cannot be invoked
//	127      the command was not found
//	128+n    signal n ended the command, or the waiting for the lock
//
// A command can end with any of these numbers itself; what quorumlock means by one, it
// says on stderr.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
