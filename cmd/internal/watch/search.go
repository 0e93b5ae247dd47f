package watch

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// step is about how many keys one step of a search looks at.
const step = 1000

// errDenied means that the user may not list keys. Clients that only take locks do not need these rights.
var errDenied = errors.New("the user may not list keys (+scan +hlen): name the locks")

// search examines a number of keys of the node for locks.
func (a *asker) search(ctx context.Context, keys int) {
	a.searched = keys == 0
	var cursor uint64
	for ; keys > 0 && a.said.Err == nil && !a.searched; keys -= step {
		names, next, err := a.List(ctx, cursor)
		if errors.Is(err, node.ErrAuth) {
			err = fmt.Errorf("%w: %w", errDenied, err)
		}
		if a.said.Unlisted = err; err != nil {
			return
		}
		for _, name := range names {
			if wire.HasPrefix(a.prefix, name) {
				a.found = append(a.found, wire.WithoutPrefix(a.prefix, name))
			}
		}
		cursor, a.searched = next, next == 0
	}
}
