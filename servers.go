package quorumlock

import "sync"

// servers knows which server each node is, so that two addresses of one have one vote.
type servers struct {
	mu sync.Mutex
	// by has, for each identity, the lane that votes for it.
	by map[string]voter
}

// voter is a lane that has a vote.
type voter struct {
	lane int
	name string
}

// claim gives the vote of a server to a lane, unless another has it: then it returns the
// name of that node. A lane votes for one server at a time, so what it claimed before is
// free again.
func (s *servers) claim(lane int, name, identity string) (twin string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, v := range s.by {
		if v.lane == lane && id != identity {
			delete(s.by, id)
		}
	}
	if v, ok := s.by[identity]; ok && v.lane != lane {
		return v.name
	}
	if identity != "" {
		if s.by == nil {
			s.by = make(map[string]voter)
		}
		s.by[identity] = voter{lane: lane, name: name}
	}
	return ""
}
