package node

import (
	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// A call declares every key that its script may use, in the order that the header of the script describes. Servers other
// than Redis, and proxies, refuse any other key, and Redis may do so. Each key costs a server about a third of a
// microsecond. So a call for a lone owner leaves out the keys that it rarely needs. If the script would need one, it changes
// nothing and says so, and the call is repeated with all of them: see [unfinished].

// declare adds the names, and then their keys of each kind.
func (w *writer) declare(names []string, kinds ...string) {
	w.keys = append(w.keys, names...)
	for _, kind := range kinds {
		for _, name := range names {
			w.keys = append(w.keys, w.key(kind, name))
		}
	}
}

// key is [wire.Key] in memory that the next exchange overwrites.
func (w *writer) key(kind, name string) string {
	before, behind := wire.KeyAffixes(wire.Tagged(name))
	return w.join("quorumlock:", kind, ":", before, name, behind)
}

func (w *writer) join(parts ...string) string {
	p := &w.packer
	from := len(p.bytes)
	for _, part := range parts {
		p.bytes = append(p.bytes, part...)
	}
	return rueidis.BinaryString(p.bytes[from:])
}

// declareFixed adds the keys that a node has once.
func (w *writer) declareFixed() {
	w.keys = append(w.keys, wire.MarkerKey(w.tag), wire.FencesKey(w.tag))
}

// declareIndex adds the index of a pool, if the name is its name or that of a slot.
func (w *writer) declareIndex(name string) {
	if rest := wire.IndexRest(name); rest != "" {
		w.keys = append(w.keys, w.join(wire.IndexPrefix, rest))
	}
}

// isLone reports whether a call leaves out the keys that a lone owner of one name rarely needs. A name that looks like a key of
// the library may be one of another operation, behind which it must not run again. A slot of a pool is renewed with all keys.
func (w *writer) isLone(op *wire.Op) bool {
	return !w.whole && len(op.Names) == 1 && op.Waiter.ID == "" && op.Floor == 0 && wire.MayBeLock(op.Names[0]) &&
		(op.Kind != wire.Renew || wire.IndexRest(op.Names[0]) == "")
}

// declareLone adds the keys that a lone owner needs, apart from the fixed ones.
func (w *writer) declareLone(op *wire.Op) {
	switch {
	case op.Kind == wire.Renew:
		w.declare(op.Names)
	case op.Pool.Name != "":
		w.keys = append(w.keys, op.Names[0], w.key("queue", op.Pool.Name))
		w.declareIndex(op.Pool.Name)
		if op.Kind == wire.Acquire {
			w.keys = append(w.keys, op.Pool.Name)
		}
	case op.Reads:
		w.declare(op.Names, "queue", "readers")
	default:
		w.declare(op.Names, "queue")
	}
}

func (w *writer) keysOfMany(ops []wire.Op, queues bool) {
	for i := range ops {
		op := &ops[i]
		queued := op.Names[0]
		w.keys = append(w.keys, queued)
		switch {
		case op.Kind == wire.Renew:
			w.declareIndex(queued)
			continue
		case op.Pool.Name != "":
			queued = op.Pool.Name
			w.declareIndex(queued)
			if op.Kind == wire.Acquire {
				w.keys = append(w.keys, queued)
			}
		case op.Reads:
			w.keys = append(w.keys, w.key("readers", queued))
		}
		if queues {
			w.keys = append(w.keys, w.key("queue", queued))
		}
	}
	w.declareFixed()
}

// declareQueued adds the names, and all keys of their queues.
func (w *writer) declareQueued(op *wire.Op) {
	if op.Reads {
		w.declare(op.Names, "queue", "readers", "waiting", "writers")
	} else {
		w.declare(op.Names, "queue", "waiting", "writers")
	}
}

func (w *writer) keysOfAcquire(op *wire.Op) {
	w.declareQueued(op)
	w.declareFixed()
}

func (w *writer) keysOfRenew(op *wire.Op) {
	w.declare(op.Names, "tombstone")
	w.declareIndex(op.Names[0])
	w.declareFixed()
}

func (w *writer) keysOfRelease(op *wire.Op) {
	w.declareQueued(op)
	if op.Waiter.Keep > 0 {
		w.keys = append(w.keys, wire.MarkerKey(w.tag))
	}
	w.keys = append(w.keys, wire.FencesKey(w.tag))
}

func (w *writer) keysOfReaderRenew(op *wire.Op) {
	w.declare(op.Names, "readers", "tombstone", "queue", "waiting", "writers")
	w.declareFixed()
}

func (w *writer) keysOfInspect(op *wire.Op) {
	w.declare(op.Names, "readers")
	w.declareFixed()
}

func (w *writer) keysOfForceRelease(op *wire.Op) {
	w.declare(op.Names, "readers", "tombstone", "queue", "waiting", "writers")
	w.declareIndex(op.Names[0])
}

func (w *writer) keysOfLeave(op *wire.Op) { w.declare(op.Names, "queue", "waiting", "writers") }

func (w *writer) keysOfShorten(op *wire.Op) {
	w.declare(op.Names, "readers")
	w.declareIndex(op.Names[0])
}

func (w *writer) keysOfLatch(op *wire.Op) {
	w.declare(op.Names, "latch", "latched", "awaiting")
	w.declareFixed()
}

func (w *writer) keysOfOnce(op *wire.Op) {
	w.declare(op.Names, "once")
	w.declareFixed()
}

func (w *writer) keysOfMarker(*wire.Op) { w.declareFixed() }

func (w *writer) keysOfList(op *wire.Op) { w.keys = append(w.keys, op.List.Key, wire.MarkerKey(w.tag)) }

// declarePool adds a pool, its queue, and its index.
func (w *writer) declarePool(pool string) {
	w.keys = append(w.keys, pool, w.key("queue", pool), w.key("waiting", pool))
	w.declareIndex(pool)
}

func (w *writer) keysOfPool(op *wire.Op) { w.declarePool(op.Pool.Name) }

func (w *writer) keysOfSlots(op *wire.Op) {
	w.keys = append(w.keys, op.Names[0], w.key("queue", op.Pool.Name))
	w.declareIndex(op.Pool.Name)
	w.keys = append(append(w.keys, op.Pool.Name, w.key("waiting", op.Pool.Name)), op.Names[1:]...)
	if op.Kind == wire.Acquire || op.Waiter.Keep > 0 {
		w.declareFixed()
	}
}

// keysOfRefresh adds the keys of each waiter. A waiter for slots that is denied learns the owner of one of the first slots, of a
// pool that may be larger than the client knows.
func (w *writer) keysOfRefresh(op *wire.Op) {
	for i := range op.Waiting {
		q := &op.Waiting[i]
		if pool := q.Pool.Name; pool != "" {
			w.declarePool(pool)
			for slot := range wire.SlotsWanted(q.Waiter.ID) {
				w.keys = append(w.keys, wire.SlotName(pool, slot))
			}
			continue
		}
		w.declareQueued(&wire.Op{Names: q.Names, Reads: q.Reads})
	}
	w.declareFixed()
}
