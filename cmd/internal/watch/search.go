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

// errDenied means that the user may not list keys. Clients that only take locks do not need these rights.
var errDenied = errors.New("the user may not list keys (+scan +hlen): name the locks")

// search examines a number of keys of the node for locks. Every lock is a hash with one field.
func (a *asker) search(ctx context.Context, keys int) {
	a.searched = keys == 0
	var cursor uint64
	for ; keys > 0 && a.said.Err == nil && !a.searched; keys -= step {
		entry, err := a.Ask(ctx, []string{"SCAN", strconv.FormatUint(cursor, 10), "COUNT", strconv.Itoa(min(keys, step)), "TYPE", "hash"})[0].AsScanEntry()
		if err == nil {
			err = a.addSingle(ctx, slices.DeleteFunc(entry.Elements, func(key string) bool { return !mayBeLock(key) || !hasPrefix(a.prefix, key) }))
		}
		if lacks(err, "scan") || lacks(err, "hlen") {
			err = fmt.Errorf("%w: %w", errDenied, err)
		}
		if a.said.Unlisted = err; err != nil {
			return
		}
		cursor = entry.Cursor
		a.searched = cursor == 0
	}
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
				a.found = append(a.found, withoutPrefix(a.prefix, few[i]))
			case lacks(err, "hlen"), err != nil && !reply: // another reply is about the key: the user may not read it, or its type has changed
				return err
			}
		}
	}
	return nil
}
