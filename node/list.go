package node

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// listStep is about how many keys one SCAN looks at: the server serves no other client meanwhile.
const listStep = 1000

// List implements [Node]. It asks for the number of fields first, as reading a large hash would burden the server.
func (r *redisNode) List(ctx context.Context, cursor uint64) (names []string, next uint64, err error) {
	var refusal error // an answer of the server, which does not end the connection
	err = r.ask(ctx, func(l *link, ctx context.Context) error {
		names, next, refusal = nil, 0, nil
		scan := l.client.B().Arbitrary("SCAN", strconv.FormatUint(cursor, 10), "COUNT", strconv.Itoa(listStep), "TYPE", "hash").Build()
		page, err := l.call(ctx, scan)[0].AsScanEntry()
		if _, answered := rueidis.IsRedisErr(err); answered {
			refusal = err
			return nil
		} else if err != nil {
			return err
		}
		hashes := slices.DeleteFunc(page.Elements, func(key string) bool { return !wire.MayBeLock(key) })
		if len(hashes) == 0 {
			next = page.Cursor
			return nil
		}
		questions := make([]rueidis.Completed, len(hashes))
		for i, key := range hashes {
			questions[i] = l.client.B().Hlen().Key(key).Build()
		}
		// Other calls wait meanwhile, so these are one exchange.
		for i, answer := range l.call(ctx, questions...) {
			fields, err := answer.AsInt64()
			_, answered := rueidis.IsRedisErr(err)
			switch {
			case err != nil && !answered:
				return err
			case err != nil && strings.Contains(strings.ToLower(err.Error()), "'hlen'"):
				refusal = err // other refusals are about the key: the user may not read it, or its type has changed
				return nil
			case fields == 1:
				names = append(names, hashes[i])
			}
		}
		next = page.Cursor
		return nil
	})
	if err == nil && refusal != nil {
		err = &Error{Node: r.name, Op: "list", Reason: reasonOf(refusal), Err: refusal}
	}
	return names, next, err
}
