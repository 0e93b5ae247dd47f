package node

import (
	"errors"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// poolScripts holds the scripts of those kinds of operation that have a special one for pools.
var poolScripts = map[wire.Kind]script{
	wire.Acquire: newScript("lib/key", "lib/recovery", "lib/refusal", "lib/fence", "lib/put", "lib/queue", "lib/pool", "permits_acquire"),
	wire.Release: newScript("lib/key", "lib/announce", "lib/give", "lib/fence", "lib/queue", "lib/pool", "permits_release"),
	wire.Leave:   newScript("lib/key", "lib/fence", "lib/queue", "lib/pool", "permits_leave"),
	wire.Resize:  newScript("lib/key", "lib/fence", "lib/queue", "lib/pool", "permits_resize"),
}

// usesPoolScript reports whether an operation uses a script for pools.
func usesPoolScript(op *wire.Op) bool {
	if op.Pool.Name == "" {
		return false
	}
	_, ok := poolScripts[op.Kind]
	return ok
}

// ofPool returns the call for an operation on a pool, with the KEYS and ARGV in the script's header.
func (w *writer) ofPool(op *wire.Op) call {
	size, version := strconv.Itoa(op.Pool.Size), w.numerals.unsigned(op.Pool.Version)
	slots := op.Names
	if op.Kind == wire.Leave || op.Kind == wire.Resize {
		slots = nil
	}
	switch op.Kind {
	case wire.Acquire:
		w.add(op.Owner, milliseconds(op.TTL), milliseconds(op.Limits.MaxTTL), milliseconds(op.Limits.MaxClockSkew),
			w.numerals.unsigned(op.Token), size, version, flag(op.Fair), w.fences(op))
	case wire.Release:
		w.add(op.Owner, size, version)
	case wire.Leave:
		w.add(op.Waiter.ID, size, version)
	default: // Resize
		w.add(size, version)
	}
	if waits := op.Kind == wire.Acquire || op.Kind == wire.Release; waits && op.Waiter.ID != "" {
		w.add(op.Waiter.ID)
		if op.Waiter.Keep > 0 {
			w.add(w.numerals.signed(op.Waiter.Ticket), milliseconds(op.Waiter.Keep))
		}
	}
	script := poolScripts[op.Kind]
	return call{script: w.ofSlot(&script), pool: op.Pool.Name, keys: slots}
}

// maxPoolBytes bounds the bitmap in a reply.
const maxPoolBytes = 1 << 13

// decodePoolDenial reads {slot, owner, left, fence, rank, size, version, free}.
func decodePoolDenial(op *wire.Op, values []rueidis.RedisMessage) (wire.Reply, error) {
	holders, err1 := decodeHolders(op, values[:4], 4)
	n, err2 := integers(values[4:5])
	size, err3 := values[5].AsInt64()
	version, err4 := values[6].AsInt64()
	free, err5 := values[7].ToString()
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return wire.Reply{}, err
	}
	if size < 0 || size > 8*maxPoolBytes || version < 0 || len(free) != int(size+7)/8 {
		return wire.Reply{}, errForm
	}
	return wire.Reply{
		Outcome: wire.Denied,
		Holder:  holders[0],
		Rank:    int(max(n[0], 0)),
		Pool:    wire.PoolState{Size: int(size), Version: uint64(version), Free: []byte(free)},
	}, nil
}

// decodeResize reads 1 or {version, size}.
func decodeResize(msg *rueidis.RedisMessage) (wire.Reply, error) {
	if msg.IsInt64() {
		if n, err := msg.AsInt64(); err != nil || n != 1 {
			return wire.Reply{}, errors.Join(err, errForm)
		}
		return wire.Reply{Outcome: wire.Granted}, nil
	}
	values, err := msg.ToArray()
	if err != nil {
		return wire.Reply{}, err
	}
	n, err := integers(values)
	if err != nil || len(n) != 2 || n[0] < 0 || n[1] < 0 || n[1] > 8*maxPoolBytes {
		return wire.Reply{}, errors.Join(err, errForm)
	}
	return wire.Reply{Outcome: wire.Denied, Pool: wire.PoolState{Version: uint64(n[0]), Size: int(n[1])}}, nil
}

// poolDenialWidth is the number of values in the denial of slots.
const poolDenialWidth = 8
