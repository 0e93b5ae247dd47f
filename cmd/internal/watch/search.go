package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"
)

// step limits the keys of one SCAN, because the server serves no other client meanwhile.
const step = 1000

// errDenied means that the user may not list keys. See [IsDenied].
var errDenied = errors.New("the user may not list keys (+scan +hlen)")

// IsDenied reports whether a node could not be searched because its user lacks the rights. Clients that only take
// locks do not need these rights.
func IsDenied(unlisted error) bool { return errors.Is(unlisted, errDenied) }

// search examines a number of keys of the node for locks that are not known yet. Every lock is a hash with one field.
func (a *asker) search(ctx context.Context, keys int, known map[string]struct{}) {
	if keys <= 0 || a.said.Err != nil {
		return
	}
	for ; keys > 0 && a.denied == nil; keys -= step {
		hashes, err := a.hashes(ctx, min(keys, step))
		if err == nil {
			hashes = slices.DeleteFunc(hashes, func(key string) bool {
				_, old := known[withoutPrefix(a.prefix, key)]
				return old || !mayBeLock(key) || !hasPrefix(a.prefix, key)
			})
			err = a.addSingle(ctx, hashes)
		}
		if err != nil {
			a.said.Unlisted = err
			return
		}
		if a.cursor == 0 {
			a.swept = true
			break
		}
	}
	a.said.Unlisted = a.denied
}

// hashes returns the hashes among the next keys. It may return none although there are more to come.
func (a *asker) hashes(ctx context.Context, keys int) ([]string, error) {
	answer := a.Ask(ctx, []string{"SCAN", strconv.FormatUint(a.cursor, 10), "COUNT", strconv.Itoa(keys), "TYPE", "hash"})[0]
	entry, err := answer.AsScanEntry()
	if lacks(err, "scan") {
		a.denied = fmt.Errorf("%w: %w", errDenied, err)
		return nil, a.denied
	}
	if err == nil {
		a.cursor = entry.Cursor
	}
	return entry.Elements, err
}

// addSingle adds the hashes with one field. Reading a large hash would burden the server.
func (a *asker) addSingle(ctx context.Context, hashes []string) error {
	for few := range slices.Chunk(hashes, batch) {
		questions := make([][]string, len(few))
		for i, key := range few {
			questions[i] = []string{"HLEN", key}
		}
		for i, answer := range a.Ask(ctx, questions...) {
			fields, err := answer.AsInt64()
			_, reply := rueidis.IsRedisErr(err)
			switch {
			case err == nil && fields == 1:
				a.fresh = append(a.fresh, withoutPrefix(a.prefix, few[i]))
			case lacks(err, "hlen"):
				a.denied = fmt.Errorf("%w: %w", errDenied, err)
				return a.denied
			case err != nil && !reply: // a reply is about the key: the user may not read it, or its type has changed
				return err
			}
		}
	}
	return nil
}
