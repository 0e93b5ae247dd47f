package node

import (
	"errors"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// refresh makes the argument of the script refresh, as its header describes.
func (w *writer) refresh(op *wire.Op) {
	p := &w.packer
	p.begin()
	p.add(milliseconds(op.TTL))
	for i := range op.Waiting {
		q := &op.Waiting[i]
		kind := "lock"
		switch {
		case q.Pool.Name != "":
			kind = "pool"
		case q.Reads:
			kind = "read"
		}
		p.add(kind)
		p.add(q.Waiter.ID)
		p.add(strconv.FormatInt(q.Waiter.Ticket, 10))
		if kind == "pool" {
			p.add(q.Pool.Name)
			p.add(strconv.Itoa(q.Pool.Size))
			p.addNumber(q.Pool.Version)
			continue
		}
		p.add(strconv.Itoa(len(q.Names)))
		for _, name := range q.Names {
			p.add(name)
			p.addNumber(fenceOffset(name))
		}
	}
	w.add(p.end())
}

// decodeStandings decodes {place, owner, left, rank, ...}.
func decodeStandings(op *wire.Op, msg *rueidis.RedisMessage) (wire.Reply, error) {
	values, err := msg.ToArray()
	if err != nil || len(values) != 4*len(op.Waiting) {
		return wire.Reply{}, errors.Join(err, errForm)
	}
	r := wire.Reply{Outcome: wire.Inspected, Standings: make([]wire.Standing, len(op.Waiting))}
	for i := range r.Standings {
		v, names := values[4*i:4*i+4], op.Waiting[i].Names
		owner, err1 := v[1].ToString()
		n, err2 := integers([]rueidis.RedisMessage{v[0], v[2], v[3]})
		if err := errors.Join(err1, err2); err != nil || n[0] < 0 || n[0] > int64(len(names)) {
			return wire.Reply{}, errors.Join(err, errForm)
		}
		if n[0] == 0 {
			continue
		}
		r.Standings[i] = wire.Standing{Known: true, Rank: int(max(n[2], 0))}
		if owner != "" || n[1] > 0 {
			r.Standings[i].Holder = wire.Holder{Name: names[n[0]-1], Owner: owner, TTL: leftOf(n[1])}
		}
	}
	return r, nil
}
