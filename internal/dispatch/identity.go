package dispatch

import (
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// identities knows which server each node is, so that two addresses of one server have one vote.
type identities struct {
	mu sync.Mutex
	// voters has the node that votes for each identity.
	voters map[string]voter
}

// voter is a node that has the vote of its server.
type voter struct {
	node int
	name string
}

// claim gives the vote of a server to a node. If another node has that vote, claim returns
// its name instead. A node votes for one server at a time: an earlier claim of it is dropped.
func (d *identities) claim(node int, name, identity string) (other string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, v := range d.voters {
		if v.node == node && id != identity {
			delete(d.voters, id)
		}
	}
	if v, ok := d.voters[identity]; ok && v.node != node {
		return v.name
	}
	if identity != "" {
		if d.voters == nil {
			d.voters = make(map[string]voter)
		}
		d.voters[identity] = voter{node: node, name: name}
	}
	return ""
}

// succession knows which servers have answered at the address of one node, one after the other. A server that has lost its
// memory comes with a new identity, and recovers. So a server that comes with the identity of an earlier one, or that does
// not recover although another has answered a moment ago, has lost nothing: the address has moved to it. It does not know
// what the others have granted meanwhile, and does not know that. For this client it recovers from then on.
type succession struct {
	// identity and process are those of the server that answered last, former are earlier identities. answered is when
	// the last exchange that it answered began.
	identity, process string
	former            []string
	answered          time.Duration
	// recovers is until when the server must recover, if it has come with a loss of memory.
	recovers time.Duration
	// until is until when the server may not know of a lock that another one has granted; 0 if there is no doubt.
	until time.Duration
}

// mostFormer bounds the identities that a node remembers.
const mostFormer = 16

// answeredBy takes note of the server that has answered an exchange. recovery is how long servers recover.
//
// A process with another identity than before has recovered when it got that, which this client may learn much later.
func (s *succession) answeredBy(identity, process string, began, now, recovery time.Duration) {
	if identity == "" {
		return
	}
	if s.identity != "" && s.identity != identity {
		if slices.Contains(s.former, identity) {
			s.until = now + recovery
		}
		if process == "" || process != s.process {
			s.recovers = s.answered + recovery - decision.Drift(recovery)
		}
		s.former = append(s.former, s.identity)
		s.former = s.former[max(len(s.former)-mostFormer, 0):]
	}
	s.identity, s.process, s.answered = identity, process, began
}

// doubt makes a grant count as one of a server that recovers, if the server may not know of another holder.
func (s *succession) doubt(r *wire.Reply, now, recovery time.Duration) {
	if r.Outcome != wire.Granted && r.Outcome != wire.Healed {
		return
	}
	if r.Recovering == 0 && now < s.recovers {
		s.until = now + recovery
		s.recovers = 0
	}
	if left := s.until - now; left > r.Recovering {
		r.Recovering, r.HadMarker = left, true
	}
}

// doubtMarker changes a marker as doubt changes a grant: the server is not ready if its grants do not count.
func (s *succession) doubtMarker(m *wire.Marker, now, recovery time.Duration) {
	r := wire.Reply{Outcome: wire.Granted, Recovering: m.Left, HadMarker: m.HadMarker}
	s.doubt(&r, now, recovery)
	m.Left, m.HadMarker = r.Recovering, r.HadMarker
}
