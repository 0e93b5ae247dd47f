package node

import (
	"errors"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

func (w *writer) acquirePermits(op *wire.Op) {
	w.right(op, true)
	w.size(op)
	w.waiting(op)
}

func (w *writer) releasePermits(op *wire.Op) {
	w.add(op.Owner)
	if !w.isLone(op) {
		w.size(op)
		w.rejoining(op)
	}
}

func (w *writer) leavePool(op *wire.Op) {
	w.leave(op)
	w.size(op)
}

// size adds the size of the pool that the client knows.
func (w *writer) size(op *wire.Op) {
	w.add(strconv.Itoa(op.Pool.Size), w.numerals.unsigned(op.Pool.Version))
}

// decodePermits decodes the replies of the script that gives permits.
func decodePermits(op *wire.Op, msg *rueidis.RedisMessage) (wire.Reply, error) {
	return decodeGrant(op, msg, poolDenialWidth, decodePoolDenial)
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
func decodeResize(_ *wire.Op, msg *rueidis.RedisMessage) (wire.Reply, error) {
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
