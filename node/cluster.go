package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// A node may be one slot of a Redis Cluster. All its keys have the same hash tag, so they lie in one slot, and every
// script runs on the one server that owns the slot. The owner changes: then the node connects to the new one, whose
// identity differs, so it recovers before it grants new locks.

// slotOwner knows the server that owns the slot of a tag. The call that uses the link uses it too.
type slotOwner struct {
	seeds []string
	// addr is the server that owned the slot when it was last asked, or "".
	addr string
}

// search returns the addresses to ask for the slot.
func (o *slotOwner) search() *slotSearch {
	s := &slotSearch{}
	if o.addr != "" {
		s.pending = append(s.pending, o.addr)
	}
	for _, seed := range o.seeds {
		if !slices.Contains(s.pending, seed) {
			s.pending = append(s.pending, seed)
		}
	}
	return s
}

// failed forgets the owner, and asks another seed first the next time: this server may be cut off from the cluster.
func (o *slotOwner) failed(addr string) {
	if o.addr == addr {
		o.addr = ""
	}
	if i := slices.Index(o.seeds, addr); i >= 0 {
		o.seeds = append(slices.Delete(slices.Clone(o.seeds), i, i+1), addr)
	}
}

// lost notes why the connection to the owner was given up. One that only broke may lead to the owner again.
func (o *slotOwner) lost(err error) {
	if addr, ok := movedTo(err, o.addr); ok {
		o.addr = addr
	} else if !severed(err) {
		o.failed(o.addr)
	}
}

// slotSearch is one search for the owner of a slot. It asks each server once.
type slotSearch struct {
	pending, asked []string
	// moved is set for the server that another server named as the owner.
	moved string
	// err is the most telling failure so far, and named is set if it is of a server that another one named.
	err   error
	named bool
}

// maxHops bounds the servers that one search asks, so that servers of a broken cluster cannot keep it busy.
const maxHops = 16

// next returns the address of the next server to ask.
func (s *slotSearch) next() (addr string, ok bool) {
	for len(s.pending) > 0 && len(s.asked) < maxHops {
		addr, s.pending = s.pending[0], s.pending[1:]
		if !slices.Contains(s.asked, addr) {
			s.asked = append(s.asked, addr)
			return addr, true
		}
	}
	return "", false
}

// failed notes that a server does not serve the slot. If it names the owner, that is asked next.
func (s *slotSearch) failed(addr string, err error) {
	owner, moved := movedTo(err, addr)
	if moved {
		s.pending = append([]string{owner}, s.pending...)
	}
	// The failure of the named owner says more than the failure of a seed.
	if named := addr == s.moved; s.err == nil || isMoved(s.err) || named && !s.named {
		s.err, s.named = err, named
	}
	if moved {
		s.moved = owner
	}
}

// find connects to the server that owns the slot. Every handshake asks the server whether it is the owner.
func (l *link) find(ctx context.Context, opt *rueidis.ClientOption) error {
	search := l.owner.search()
	for addr, ok := search.next(); ok; addr, ok = search.next() {
		at := *opt
		at.InitAddress = []string{addr}
		err := l.greet(ctx, &at)
		if err == nil {
			l.owner.addr = addr
			return nil
		}
		search.failed(addr, err)
		if !isMoved(err) {
			l.owner.failed(addr)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return search.err
}

// giveUp drops the connection after an error.
func (l *link) giveUp(ctx context.Context, err error) {
	if l.owner != nil {
		l.owner.lost(err)
	}
	l.drop(ctx)
}

// movedTo returns the address of the owner of a slot from the reply "MOVED slot host:port". Without a host, it is the
// host of the server that replied.
func movedTo(err error, from string) (addr string, ok bool) {
	if !isMoved(err) {
		return "", false
	}
	words := strings.Fields(err.Error())
	if len(words) != 3 {
		return "", false
	}
	at := strings.LastIndexByte(words[2], ':')
	if at < 0 {
		return "", false
	}
	host, port := words[2][:at], words[2][at+1:]
	if host == "" {
		host, _, _ = net.SplitHostPort(from)
	}
	addr = net.JoinHostPort(strings.Trim(host, "[]"), port)
	return addr, isHostPort(addr) // the host "?" is unknown
}

// isMoved reports whether a server replied that another one owns the slot.
func isMoved(err error) bool { return strings.HasPrefix(errorText(err), "MOVED ") }

// leavesSlot reports whether an error reply means that another server owns the slot, or that the cluster is down. The
// replies ASK and TRYAGAIN do not: while a slot moves, its owner still serves the keys that it has, and no other
// server may create one.
func leavesSlot(err error) bool {
	text := errorText(err)
	return strings.HasPrefix(text, "MOVED ") || strings.HasPrefix(text, "CLUSTERDOWN") ||
		strings.Contains(text, "while the cluster is down") // of a script, with cluster-allow-reads-when-down
}

// lacksKey reports whether a server refused a command because the slot moves, and one of the keys is not there.
func lacksKey(err error) bool {
	text := errorText(err)
	return strings.HasPrefix(text, "ASK ") || strings.HasPrefix(text, "TRYAGAIN ")
}

// errorText returns the text of an error reply of a server, and "" for other errors.
func errorText(err error) string {
	var reply replyError
	var redisErr *rueidis.RedisError
	if errors.As(err, &redisErr) {
		return redisErr.Error()
	}
	if errors.As(err, &reply) {
		return string(reply)
	}
	return ""
}

// checkTag refuses a tag that could not be the hash tag of keys, or not be written in a script as it is.
func checkTag(tag string) error {
	const most = 32
	strange := strings.ContainsFunc(tag, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	})
	if tag == "" || len(tag) > most || strange {
		return fmt.Errorf("node: the tag of a cluster's slot needs 1 to %d letters, digits, dots, hyphens and underscores", most)
	}
	return nil
}

// strangers reports whether an operation has a name that lies in another slot.
func strangers(op *wire.Op, tag string) bool {
	return slices.ContainsFunc(op.Names, func(name string) bool { return wire.HashTag(name) != tag }) ||
		op.Pool.Name != "" && wire.HashTag(op.Pool.Name) != tag
}

// doInSlot is Do for a batch with names that lie in other slots. Only the operations on these names fail.
func (r *redisNode) doInSlot(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	other := fmt.Errorf("the name has not the hash tag {%s} of this slot of a cluster: begin Config.Prefix with it", r.tag)
	for i := range ops {
		if strangers(&ops[i], r.tag) {
			failAll(r.name, ops[i:i+1], replies[i:i+1], ErrMisconfigured, other, true)
			continue
		}
		r.Do(ctx, ops[i:i+1], replies[i:i+1])
	}
}
