package node

import (
	"context"

	"github.com/redis/rueidis"
)

// close gives up the connection for good.
//
// A client that notices the loss of its connection starts a goroutine, which may still be about to end when
// drop returns. An idle client on one connection has no goroutine and no timer. So close closes the
// connection below the client, which is never used again.
func (l *link) close(opt rueidis.ClientOption) {
	sentinel, renewed := opt.Sentinel.MasterSet != "", opt.AuthCredentialsFn != nil
	if l.client == nil || l.overlapped || l.redialled.Load() || sentinel || renewed {
		l.drop(context.Background())
		return
	}
	l.use.Store(using)
	l.discard()
}
