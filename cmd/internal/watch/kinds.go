package watch

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// Kinds is the state of the semaphore and the latch of a name on one node. Permits are locks, and reported as such.
type Kinds struct {
	// Permits is the number of permits that was set last, and Version the version of that setting; 0 if none was set.
	Permits int
	Version uint64
	// Generation is the token of the latch's last deletion. Count is the number to which the latch was set since, or 0.
	// Counted are the ids that have counted down.
	Generation uint64
	Count      int
	Counted    []string
	// Err is why some of it is not known.
	Err error
}

// explore asks about the semaphores and the latches of names. It finds the held permits.
func (a *asker) explore(ctx context.Context, names []string, mostPermits int) {
	for _, name := range names {
		if _, _, permit := wire.Permit(name); permit || a.said.Err != nil {
			continue
		}
		a.explorePermits(ctx, wire.PoolName(name), mostPermits)
		if a.said.Err == nil {
			a.said.Kinds[name] = a.kinds(ctx, name)
		}
	}
}

func (a *asker) explorePermits(ctx context.Context, pool string, most int) {
	slots := make([]string, most)
	for i := range slots {
		slots[i] = wire.SlotName(pool, i)
	}
	a.inspect(ctx, slots)
	for name, l := range a.said.Locks {
		if len(l.Holders) > 0 {
			a.found = append(a.found, name)
		}
	}
	clear(a.said.Locks) // they are asked about again with all other names
}

// kinds reads keys of the library itself. The scripts that do it would begin the recovery of a node that is new.
func (a *asker) kinds(ctx context.Context, name string) (k Kinds) {
	name = wire.WithPrefix(a.prefix, name)
	answers := a.Ask(ctx,
		[]string{"HMGET", wire.PoolName(name), "size", "version"},
		[]string{"HMGET", wire.Key("latch", name), "generation", "count"})
	var size, version, generation, count uint64
	if k.Err = numbers(answers[0], &size, &version); k.Err == nil {
		k.Err = numbers(answers[1], &generation, &count)
	}
	k.Permits, k.Version, k.Generation, k.Count = int(size), version, generation, int(count)
	if k.Count > 0 && k.Err == nil {
		k.Counted, k.Err = a.Ask(ctx, []string{"ZRANGE", wire.Key("latched", name), "0", "-1"})[0].AsStrSlice() // 1,000 at most
	}
	return k
}

// numbers reads the fields of a hash; absent fields are 0. A key of another type counts as absent.
func numbers(answer rueidis.RedisResult, fields ...*uint64) error {
	values, err := answer.ToArray()
	if err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") {
		return nil
	}
	for i, v := range values[:min(len(values), len(fields))] {
		text, _ := v.ToString() // a nil is an absent field
		*fields[i], _ = strconv.ParseUint(text, 10, 64)
	}
	return err
}

// Latest returns the latest number of permits that a node knows for a semaphore, or 0 if none was ever set.
func (f *Facts) Latest(name string) (permits int) {
	var version uint64
	for i := range f.Nodes {
		if k := f.Nodes[i].Kinds[name]; k.Version > version {
			permits, version = k.Permits, k.Version
		}
	}
	return permits
}

// Latch returns the number to which a latch is set, and how many ids have counted down on any node. Nodes that missed the
// last deletion do not count.
func (f *Facts) Latch(name string) (count, counted int) {
	var latest uint64
	for i := range f.Nodes {
		latest = max(latest, f.Nodes[i].Kinds[name].Generation)
	}
	ids := make(map[string]struct{})
	for i := range f.Nodes {
		k := f.Nodes[i].Kinds[name]
		if k.Generation != latest || k.Count == 0 {
			continue
		}
		count = max(count, k.Count)
		for _, id := range k.Counted {
			ids[id] = struct{}{}
		}
	}
	return count, len(ids)
}

// Permits returns the names of a semaphore's permits among the round's locks, by number.
func (f *Facts) Permits(semaphore string) (names []string) {
	for _, name := range f.Names {
		if of, _, ok := wire.Permit(name); ok && of == semaphore {
			names = append(names, name)
		}
	}
	number := func(name string) int { _, n, _ := wire.Permit(name); return n }
	slices.SortFunc(names, func(a, b string) int { return number(a) - number(b) })
	return names
}
