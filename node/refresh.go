package node

import (
	"errors"
	"strconv"

	"github.com/redis/rueidis"
)

// Waiting is one waiter of a [Refresh], with what it waits for.
type Waiting struct {
	// Waiter has no Keep: the TTL of the operation is how long its entries live.
	Waiter Waiter
	// Names are the locks. For slots of a pool it is the name of the pool.
	Names []string
	// Reads is set for a reader.
	Reads bool
	// Pool is set if the waiter waits for slots.
	Pool Pool
}

// Standing is how a waiter stands on a node.
type Standing struct {
	// Known is false if the node could not say, for example because of a key of another type.
	Known bool
	// Holder is what an attempt would be denied for, without a Token. It is zero if no other owner and no
	// earlier waiter is in the way. For slots of a pool its name is the name of the pool.
	Holder Holder
	// Rank is how many waiters stand before this one.
	Rank int
}

// refreshScript is the script of Refresh.
var refreshScript = newScript("lib/key", "lib/fence", "lib/put", "lib/queue", "lib/contend", "lib/readers", "lib/hindrance", "lib/pool", "refresh")

// refresh makes the argument of the script refresh, as its header describes.
func (w *writer) refresh(op *Op) call {
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
	return call{script: w.ofSlot(&refreshScript), keys: w.ownKeys()}
}

// decodeStandings decodes {place, owner, left, rank, ...}.
func decodeStandings(op *Op, msg *rueidis.RedisMessage) (Reply, error) {
	values, err := msg.ToArray()
	if err != nil || len(values) != 4*len(op.Waiting) {
		return Reply{}, errors.Join(err, errForm)
	}
	r := Reply{Outcome: Inspected, Standings: make([]Standing, len(op.Waiting))}
	for i := range r.Standings {
		v, names := values[4*i:4*i+4], op.Waiting[i].Names
		owner, err1 := v[1].ToString()
		n, err2 := integers([]rueidis.RedisMessage{v[0], v[2], v[3]})
		if err := errors.Join(err1, err2); err != nil || n[0] < 0 || n[0] > int64(len(names)) {
			return Reply{}, errors.Join(err, errForm)
		}
		if n[0] == 0 {
			continue
		}
		r.Standings[i] = Standing{Known: true, Rank: int(max(n[2], 0))}
		if owner != "" || n[1] > 0 {
			r.Standings[i].Holder = Holder{Name: names[n[0]-1], Owner: owner, TTL: leftOf(n[1])}
		}
	}
	return r, nil
}
