package decision

import "time"

// inlineNodes is the number of nodes up to which Claims need no memory of their own. Most
// deployments have no more.
const inlineNodes = 5

// Claims records the confirmations of one owner: for each node, until when its confirmation may be
// relied on, by local time. The claims decide until when a lease is valid.
//
// Use [NewClaims]; the zero value has no nodes. Claims must not be copied after their first use,
// and are not safe for concurrent use.
type Claims struct {
	nodes  int
	inline [inlineNodes]time.Duration
	more   []time.Duration
}

// NewClaims returns the claims on the given number of nodes, none of which has confirmed yet.
func NewClaims(nodes int) Claims {
	c := Claims{nodes: nodes}
	if nodes > inlineNodes {
		c.more = make([]time.Duration, nodes)
	}
	return c
}

// Nodes returns the number of nodes.
func (c *Claims) Nodes() int { return c.nodes }

func (c *Claims) expiries() []time.Duration {
	if c.more != nil {
		return c.more
	}
	return c.inline[:c.nodes]
}

// Confirm records that node i has confirmed the claim. The command was sent at the time sent, with
// this TTL, and the answer is processed at now. Confirm reports whether the answer counts.
//
// An answer of a recovering node counts only as a re-assertion: this owner's claim there must
// still be active. Such a node has forgotten to whom it gave the lock before. So its answer
// alone does not show that no other owner has a claim there. An active claim of this owner
// shows that.
//
// A confirmation never makes a claim end earlier, in any order of the answers.
func (c *Claims) Confirm(i int, sent, ttl, now time.Duration, recovering bool) bool {
	e := &c.expiries()[i]
	if recovering && *e <= now {
		return false
	}
	*e = max(*e, Expiry(sent, ttl))
	return true
}

// Drop records that node i does not have the claim. Its earlier confirmations are void.
func (c *Claims) Drop(i int) { c.expiries()[i] = 0 }

// Expiry returns until when the claim on node i can be relied on; 0 if there is none.
func (c *Claims) Expiry(i int) time.Duration { return c.expiries()[i] }

// ValidUntil returns until when at least need claims are active. See the function [ValidUntil].
func (c *Claims) ValidUntil(need int) time.Duration { return ValidUntil(c.expiries(), need) }

// Backing returns how many claims are active after now.
func (c *Claims) Backing(now time.Duration) int { return Backing(c.expiries(), now) }

// NextLapse returns when the next active claim ends, or the largest Duration if none is active.
func (c *Claims) NextLapse(now time.Duration) time.Duration {
	next := time.Duration(1<<63 - 1)
	for _, e := range c.expiries() {
		if e > now {
			next = min(next, e)
		}
	}
	return next
}
