package quorumlock

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// LockInfo is what the nodes say about one lock.
type LockInfo struct {
	// Name is the name of the lock, or of the semaphore.
	Name string
	// Slot is the number of the permit of a semaphore; see [Lease.Slots]. It is -1 for all other locks: a RedLock, a name of
	// a MultiLock, or an RWLock.
	Slot int
	// Reads is set if the readers of an RWLock have it.
	Reads bool
	// Holders has an entry for each owner, at least one. Those on the most nodes come first.
	Holders []LockHolder
}

// LockHolder is an owner of a lock in a list.
type LockHolder struct {
	// Owner is the id of the lease; [ParseOwner] and [DescribeOwner] read it.
	Owner string
	// Held is set if a majority of the nodes have the lock for the owner. Otherwise it acquires or releases the lock just
	// now, or too few nodes answered. Nodes counts those that have it.
	Held  bool
	Nodes int
	// Since is the begin of the hold by the clock of the holder. It is zero for readers, and for a holder that is no client
	// of this library. After a change from one lease of a client to the next it is the begin of the latter.
	Since time.Time
	// TTL is how long a majority of the nodes keep the lock without a renewal; if fewer have it, the longest time that one does.
	TTL time.Duration
}

// Locks lists the locks, readers and permits that are held, on any client, with names that fit the pattern. In it, each *
// stands for any text, so "*" fits every name. Permits have the name of their semaphore. It changes nothing on the nodes.
//
// A lock that a majority of the nodes hold all the time comes once. Others may be missing. The order is arbitrary. Locks
// reads the keys of the servers in small steps, so its memory grows by a few bytes for each lock that fits, and a server
// serves others between the steps. It still reads all keys, so call it every few seconds
// at most. It needs the rights +scan and +hlen besides those of a client, see docs/servers.md.
//
// If nodes fail, the list goes on, and the last pair has an error that names them, and no lock. While a majority has
// answered it joins a *node.Error for each, and no lock that a majority holds is missing. Otherwise it is a
// [*NoQuorumError]. The list ends early with an [*InvalidError], ErrClosed, or the error of ctx.
//
// The sequence can be used again, which asks again, and by several goroutines at once.
func (c *Client) Locks(ctx context.Context, pattern string) iter.Seq2[LockInfo, error] {
	return func(yield func(LockInfo, error) bool) {
		s := &listing{
			client: c, pattern: pattern, need: quorum.Majority().Need(c.nodes.Len()),
			errs: make([]error, c.nodes.Len()), searched: make([]bool, c.nodes.Len()),
			seed: maphash.MakeSeed(), listed: make(map[uint64]struct{}),
			yield: func(l LockInfo) bool { return yield(l, nil) },
		}
		if err := s.run(ctx); err != nil && !errors.Is(err, errStopped) {
			yield(LockInfo{}, err)
		}
	}
}

// errStopped ends a list in which its caller has no more interest.
var errStopped = errors.New("stopped")

// listBatch is how many names a list inspects at once.
const listBatch = 200

type listing struct {
	client  *Client
	pattern string
	need    int
	yield   func(LockInfo) bool
	// errs has the first failure of each node. searched is set once all keys of a node have been read.
	errs     []error
	searched []bool
	// listed has a hash of each name that has been yielded. That a searched node has a name does not say so: it may have
	// got the name after the search.
	seed   maphash.Seed
	listed map[uint64]struct{}
}

func (s *listing) run(ctx context.Context) error {
	if ctx == nil {
		return invalid(nilContext)
	}
	n := len(s.errs)
	// So many nodes have every lock that a majority holds.
	for i, left := 0, n-s.need+1; i < n && left > 0; i++ {
		if err := s.search(ctx, i); err != nil {
			return err
		}
		if s.searched[i] {
			left--
		}
	}
	if e := s.client.noQuorum("list locks", s.need, func(i int) error { return s.errs[i] }); e.Agreed < s.need {
		return e
	}
	return errors.Join(s.errs...)
}

// search yields the locks on node i that have not been listed. Failures of nodes go into errs.
func (s *listing) search(ctx context.Context, i int) error {
	before := ""
	for cursor := uint64(0); !s.searched[i]; {
		if err := s.client.begin(ctx); err != nil {
			return err
		}
		names, next, err := s.step(ctx, i, cursor)
		s.client.endCall()
		server := s.server(i)
		if err == nil && before != "" && server != before {
			err = &node.Error{Node: s.client.nodes.Name(i), Op: "list", Reason: node.ErrRejected, Err: errOtherServer}
		}
		if err != nil {
			s.errs[i] = err
			return nil
		}
		before = server
		names = slices.DeleteFunc(names, func(name string) bool {
			_, listed := s.listed[maphash.String(s.seed, name)]
			return listed
		})
		for few := range slices.Chunk(names, listBatch) {
			if err := s.inspect(ctx, few); err != nil {
				return err
			}
		}
		cursor, s.searched[i] = next, next == 0
	}
	return nil
}

// errOtherServer ends the search of a node, because a cursor means nothing to another server, which would leave names out.
var errOtherServer = errors.New("another server answers now, or it restarted, while its keys were read")

// server returns the process that is the server of node i, or "" if that is unknown.
func (s *listing) server(i int) (process string) {
	_, process = s.client.nodes.Node(i).Server()
	return process
}

// step reads names on node i that fit. The timeout of the node bounds it. The end of ctx would cost the connection, which
// leases need.
func (s *listing) step(ctx context.Context, i int, cursor uint64) (names []string, next uint64, err error) {
	names, next, err = s.client.nodes.Node(i).List(context.WithoutCancel(ctx), cursor)
	prefix := s.client.cfg.Prefix
	names = slices.DeleteFunc(names, func(name string) bool {
		short := wire.WithoutPrefix(prefix, name)
		if semaphore, _, ok := wire.Permit(short); ok {
			short = semaphore
		}
		return !wire.HasPrefix(prefix, name) || !fits(s.pattern, short)
	})
	slices.Sort(names)
	return slices.Compact(names), next, err
}

// fits reports whether a name fits a pattern, in which each * stands for any text.
func fits(pattern, name string) bool {
	first, rest, more := strings.Cut(pattern, "*")
	name, ok := strings.CutPrefix(name, first)
	if !ok || !more {
		return ok && name == ""
	}
	for part := ""; ; name = name[len(part):] {
		part, rest, more = strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(name, part)
		}
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name = name[at:]
	}
}

// inspect asks all nodes for the holders of names. A node refuses a question with a name that is no lock, or
// that the user may not read, and one whose answer would be too long, so inspect then asks about each half.
func (s *listing) inspect(ctx context.Context, names []string) error {
	if err := s.client.beginCall(); err != nil {
		return err
	}
	replies, err := s.client.ask(ctx, wire.Op{Kind: wire.Inspect, Names: names, Limits: s.client.cfg.limits()}, nil)
	s.client.endCall()
	if err != nil {
		return err
	}
	about := func(r timedReply) bool { // a node that lets the client in not at all refuses no question
		return !r.Unsent && (errors.Is(r.Err, node.ErrWrongType) || errors.Is(r.Err, node.ErrAuth))
	}
	long := func(r timedReply) bool {
		var refused *node.Error
		return errors.As(r.Err, &refused) && refused.Err != nil && strings.HasPrefix(refused.Err.Error(), wire.LongReply+" ")
	}
	if len(names) > 1 && (slices.ContainsFunc(replies, about) || slices.ContainsFunc(replies, long)) {
		half := len(names) / 2
		if err := s.inspect(ctx, names[:half]); err != nil {
			return err
		}
		return s.inspect(ctx, names[half:])
	}
	locks := make(map[string]*LockInfo)
	ttls := make(map[[2]string][]time.Duration)
	for j, r := range replies {
		if r.Err != nil && !about(r) {
			s.errs[j] = cmp.Or(s.errs[j], r.Err)
		}
		for _, h := range r.Holders {
			if h.IsLock() {
				locks[h.Name] = s.add(locks[h.Name], h)
				ttls[[2]string{h.Name, h.Owner}] = append(ttls[[2]string{h.Name, h.Owner}], h.TTL)
			}
		}
	}
	for _, name := range names {
		l := locks[name]
		if l == nil {
			continue
		}
		s.listed[maphash.String(s.seed, name)] = struct{}{}
		for k := range l.Holders {
			h := &l.Holders[k]
			left := ttls[[2]string{name, h.Owner}]
			slices.SortFunc(left, func(a, b time.Duration) int { return cmp.Compare(b, a) })
			h.Nodes, h.Held = len(left), len(left) >= s.need
			h.TTL = left[0]
			if h.Held {
				h.TTL = left[s.need-1]
			}
		}
		slices.SortStableFunc(l.Holders, func(a, b LockHolder) int { return cmp.Compare(b.Nodes, a.Nodes) })
		if !s.yield(*l) {
			return errStopped
		}
	}
	return nil
}

// add adds the holder of a name on one node to a lock, or makes the lock.
func (s *listing) add(l *LockInfo, h wire.Holder) *LockInfo {
	if l == nil {
		l = &LockInfo{Name: wire.WithoutPrefix(s.client.cfg.Prefix, h.Name), Slot: -1}
		if semaphore, slot, ok := wire.Permit(l.Name); ok {
			l.Name, l.Slot = semaphore, slot
		}
	}
	var since time.Time
	if h.Reads {
		l.Reads = true
	} else if h.Token > 0 {
		since = time.UnixMicro(int64(min(h.Token, 1<<62)))
	}
	at := slices.IndexFunc(l.Holders, func(other LockHolder) bool { return other.Owner == h.Owner })
	switch {
	case at < 0:
		l.Holders = append(l.Holders, LockHolder{Owner: h.Owner, Since: since})
	case !since.IsZero() && (l.Holders[at].Since.IsZero() || since.Before(l.Holders[at].Since)):
		l.Holders[at].Since = since
	}
	return l
}
