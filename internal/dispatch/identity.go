package dispatch

import "sync"

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
