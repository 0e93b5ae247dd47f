package node

import (
	"context"

	"github.com/redis/rueidis"
)

// close gives up the connection for good.
//
// drop ends the client too. The client then starts a goroutine, which may still be about to end when drop
// returns. An idle client on one connection has no goroutine and no timer. So close only closes the
// connection, and the client is never used again.
//
// rueidis may have goroutines after overlapping exchanges and after it has connected again, behind
// Sentinels, and with credentials that are renewed. Then close is drop.
func (l *link) close(opt rueidis.ClientOption) {
	sentinel, renewed := opt.Sentinel.MasterSet != "", opt.AuthCredentialsFn != nil
	if l.client == nil || l.overlapped || l.redialled.Load() || sentinel || renewed {
		l.drop(context.Background())
		return
	}
	l.use.Store(using)
	l.discard()
}
