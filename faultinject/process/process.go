// Package process runs Redis servers as processes that can be broken: each is a [faultinject.Server]. It needs
// redis-server on PATH, and libfaketime for stepped clocks.
//
// A server listens on loopback behind a [faultinject.Proxy], which cuts it off. On Linux the server ends with the
// program that started it; elsewhere, only Close reliably ends it.
package process

import (
	"context"

	"github.com/quorumlock/quorumlock/faultinject"
)

// Start starts n servers in parallel, named n1 to n<n>, and returns once all answer. The caller must close the group,
// which removes everything that the servers left behind.
func Start(ctx context.Context, n int) (*faultinject.Group, error) {
	return faultinject.StartGroup(n, func(name string) (faultinject.Server, error) { return start(ctx, name) })
}
