package quorumlock

import "github.com/quorumlock/quorumlock/node"

// volley is one operation for every node, in one piece of memory.
type volley struct {
	op    node.Op
	calls []call
	few   [fewNodes]call
}

// aim makes a zero volley one for so many nodes.
func (v *volley) aim(nodes int, op node.Op) {
	v.op = op
	if nodes <= fewNodes {
		v.calls = v.few[:nodes]
	} else {
		v.calls = make([]call, nodes)
	}
	for i := range v.calls {
		v.calls[i].op = &v.op
		v.calls[i].aim(i)
	}
}

func newVolley(nodes int, op node.Op) *volley {
	v := &volley{}
	v.aim(nodes, op)
	return v
}
