package quorum

import (
	"math"
	"slices"
	"time"
)

// Proposal is the state of one acquisition by one owner: which nodes have voted what, which of
// them took the fencing token that was proposed, and on which nodes the owner may have left
// something that must be undone. It is pure: it has no clock, does no I/O, and starts nothing.
// It is not safe for concurrent use.
//
// A writer proposes a token. A node that grants also says whether it took the token, or knows
// one as large. Once need nodes have granted and taken the token, the acquisition is won. If need
// nodes may grant and too few took the token, the writer proposes a higher one with
// [Proposal.Raise] to the nodes that have not failed.
//
// A reader proposes none: the nodes tell the largest token that they know, and the reader acts
// under one that is as large as that of every writer before it. If too few nodes keep a
// token as large, the reader has it written back, with [Proposal.WriteBack].
type Proposal struct {
	votes, taken Tally
	reads        bool
	// won is set by Win. renewed is set once renewals were sent: an answer to the
	// acquisition then no longer says what the node has of this owner.
	won, renewed bool
	// rounds counts the rounds: one, and one more for each higher token.
	rounds uint8
	// token is the token proposed last. Nodes keep end instead, the last of the block of
	// tokens that begins with it.
	token, end uint64
	// readToken is the token that a reader acts under, as far as it is known.
	readToken uint64
	// fences has the largest token that each node has told or taken; nil while no node has.
	fences []uint64
	// failed are, for a reader, the nodes that have failed a round.
	failed Set
	// exposed are the nodes that may have something of this owner. unanswered are those with
	// an acquisition on its way.
	exposed, unanswered Set
}

// Answer is what a node answered to an acquisition, or what became of the operation.
type Answer struct {
	Vote Vote
	// Proposed is the token that the operation carried.
	Proposed uint64
	// Known is, in a grant, a token that the node knew and that is as large as Proposed or larger; 0 if
	// the node took Proposed. To a reader it is the largest token that the node knows.
	Known uint64
	// Fence is the largest token that the node told, in a grant or in a denial; 0 if none.
	Fence uint64
	// Unsent is set if the operation did not reach the node, Repeated if it may have run twice.
	Unsent, Repeated bool
}

// NewProposal returns an acquisition on so many nodes that needs need of them. token is the first
// proposal, and end the last token of the block that begins with it. A reader's tokens are ignored.
func NewProposal(nodes, need int, reads bool, token, end uint64) Proposal {
	return Proposal{
		votes: NewTally(nodes, need), taken: NewTally(nodes, need),
		reads: reads, token: token, end: end,
	}
}

// Token returns the token proposed last, and End the last of its block. After Win, they are the
// token and the end of the lease.
func (p *Proposal) Token() uint64 { return p.token }

// End returns the last token of the block that begins with Token.
func (p *Proposal) End() uint64 { return p.end }

// ReadToken returns the token that a reader acts under, as far as it is known; else 0.
func (p *Proposal) ReadToken() uint64 { return p.readToken }

// Votes returns the votes on the acquisition, whatever tokens they were about.
func (p *Proposal) Votes() *Tally { return &p.votes }

// Taken returns the votes on the token: granted for nodes that took it, denied for nodes
// that granted and know a larger one.
func (p *Proposal) Taken() *Tally { return &p.taken }

// Fences returns the largest token that each node has told or taken, or nil.
func (p *Proposal) Fences() []uint64 { return p.fences }

// Begin starts a round, and returns the nodes to ask.
func (p *Proposal) Begin() Set {
	p.rounds++
	var ask Set
	for i := range p.taken.Nodes() {
		if p.taken.Vote(i) == Missing {
			ask = ask.With(i)
		}
	}
	return ask
}

// Sent records that the acquisition is on its way to node i.
func (p *Proposal) Sent(i int) {
	p.exposed, p.unanswered = p.exposed.With(i), p.unanswered.With(i)
	if p.readToken != 0 {
		p.recount() // the node may yet take the reader's token
	}
}

// Answered records that the operation on its way to node i has ended. Answer must follow.
func (p *Proposal) Answered(i int) { p.unanswered = p.unanswered.Without(i) }

// Answer counts what became of the operation on node i.
func (p *Proposal) Answer(i int, a Answer) {
	if a.Unsent && p.rounds == 1 && !p.won {
		p.exposed = p.exposed.Without(i) // no other round can have reached it
	}
	p.votes.Record(i, a.Vote)
	p.recordFence(i, a)
	switch {
	case p.reads:
		if a.Vote != Granted {
			p.failed = p.failed.With(i)
		}
		p.recount()
	case a.Vote != Granted:
		p.taken.Record(i, Unknown)
	case a.Proposed != p.token: // the token has been raised since
	case a.Known == 0:
		p.taken.Record(i, Granted)
	default:
		p.taken.Record(i, Denied)
	}
	if a.Vote == Denied && a.Proposed == p.token && !p.renewed && !a.Repeated {
		// The node has nothing of this owner: all that was sent before was answered before.
		p.exposed = p.exposed.Without(i)
	}
}

// recordFence keeps the largest token that a node has told or taken.
func (p *Proposal) recordFence(i int, a Answer) {
	switch {
	case a.Fence == 0 && p.fences == nil:
		return
	case p.fences == nil:
		p.fences = make([]uint64, p.votes.Nodes())
	}
	fence := a.Fence
	if a.Vote == Granted && !p.reads {
		fence = max(fence, p.end)
	}
	p.fences[i] = max(p.fences[i], fence)
}

// Implausible reports whether node i told a token that it cannot have taken. maxAhead is MaxTTL and
// MaxClockSkew together, in units of tokens.
//
// A node refuses a proposal that is older than MaxTTL by its clock. So if it accepts ours, its clock
// is less than MaxTTL ahead of it. The node takes no token that is more than MaxClockSkew ahead of
// its clock. To outbid a token beyond both would make all other nodes refuse us. And while this
// owner has the node, no other owner raises the token there: the node takes a token that is larger
// than what it knew before. If the operation ran twice, the second run finds the token of the first.
func (p *Proposal) Implausible(i int, a Answer, maxAhead uint64) bool {
	if a.Known == 0 {
		return false
	}
	tooFar := a.Known >= a.Proposed+maxAhead
	raised := !a.Repeated && !p.reads && p.fence(i) != 0 && p.fence(i) < a.Proposed
	return tooFar || raised
}

// Decided reports whether the acquisition is won or lost: need nodes have granted and taken the
// token, or too many have failed for that, or the token was raised for each node in turn.
func (p *Proposal) Decided() bool {
	result := p.taken.Result()
	return result == Won || p.taken.Unknown() > p.taken.Nodes()-p.taken.Need() ||
		result == Lost && int(p.rounds) > p.taken.Nodes()
}

// NeedsHigherToken reports whether need nodes may grant and too few took the token, as others
// know a larger one. One round more suffices, or one for each node that answers late.
func (p *Proposal) NeedsHigherToken() bool { return p.taken.Result() == Lost && !p.Decided() }

// FenceToBeat returns the largest of the tokens that need nodes have told at most: whatever the
// other nodes know, need nodes take a larger one.
func (p *Proposal) FenceToBeat() uint64 { return TokenToBeat(p.fences, p.taken.Need()) }

// Raise proposes a higher token to the nodes that have not failed: next is asked for one above a
// given token. Begin must follow. It is the same owner's acquisition again, so the nodes that
// granted grant again.
func (p *Proposal) Raise(next func(above uint64) uint64) {
	last, n, need := p.taken, p.taken.Nodes(), p.taken.Need()
	p.taken = NewTally(n, need)
	fences := slices.Clone(p.fences)
	for i := range n {
		if last.Vote(i) == Unknown {
			p.taken.Record(i, Unknown)
			fences[i] = math.MaxUint64 // it takes nothing
		}
	}
	p.token = next(max(p.end, TokenToBeat(fences, need)))
	p.end = p.token // a proposal that outbids others reserves no block
}

// WriteBack starts a round in which nodes keep the token that the reader acts under. It
// returns the nodes to ask: those that granted, and know smaller tokens only.
func (p *Proposal) WriteBack() Set {
	p.rounds++
	var ask Set
	for i := range p.taken.Nodes() {
		if p.taken.Vote(i) == Denied {
			ask = ask.With(i)
		}
	}
	return ask
}

func (p *Proposal) fence(i int) uint64 {
	if p.fences == nil {
		return 0
	}
	return p.fences[i]
}

// recount finds the token that a reader can act under by what the nodes have told, and which of
// them have it.
func (p *Proposal) recount() {
	var buf [MaxNodes]uint64
	told := buf[:0]
	n, need := p.votes.Nodes(), p.votes.Need()
	for i := range n {
		if p.votes.Vote(i) == Granted {
			told = append(told, p.fence(i))
		}
	}
	// A writer's token is certain to be on a majority only, whatever this reader's rule.
	token := ReadToken(told, n, Majority().Need(n))
	if len(told) >= need && (p.readToken == 0 || token < p.readToken) {
		p.readToken = token
	}
	p.taken = NewTally(n, need)
	for i := range n {
		p.taken.Record(i, p.readVote(i))
	}
}

// readVote is the vote of node i on the token that a reader acts under: whether the node keeps one
// as large, or would if it were asked to.
func (p *Proposal) readVote(i int) Vote {
	switch vote := p.votes.Vote(i); {
	case vote == Missing, vote == Granted && p.readToken == 0:
		return Missing
	case vote != Granted:
		return Unknown
	case p.fence(i) >= p.readToken:
		return Granted
	case p.failed.Has(i):
		return Unknown
	case p.unanswered.Has(i):
		return Missing
	default:
		return Denied
	}
}

// Win turns the acquisition into a lease. It reports whether it may: at this instant, need nodes
// have granted, taken the token, and still have the claim by what they confirmed.
func (p *Proposal) Win(c *Claims, now time.Duration) bool {
	if p.taken.Result() != Won || p.activeTaken(c, now) < p.taken.Need() {
		return false
	}
	p.won = true
	if p.reads {
		p.token, p.end = p.readToken, p.readToken
	}
	return true
}

// activeTaken is how many nodes took the token under a claim that is still active.
func (p *Proposal) activeTaken(c *Claims, now time.Duration) int {
	n := 0
	for i := range c.Nodes() {
		if c.Expiry(i) > now && p.taken.Vote(i) == Granted {
			n++
		}
	}
	return n
}

// Renews records that renewals of this owner are sent from now on.
func (p *Proposal) Renews() { p.renewed = true }

// Renewed reports whether renewals of this owner were sent.
func (p *Proposal) Renewed() bool { return p.renewed }

// Expose records that a renewal of this owner is on its way to node i.
func (p *Proposal) Expose(i int) { p.exposed = p.exposed.With(i) }

// Exposed returns the nodes that may have something of this owner: those to release on.
func (p *Proposal) Exposed() Set { return p.exposed }

// Unanswered returns the nodes with an acquisition on its way. Each must be released when that
// is answered, if the acquisition was lost.
func (p *Proposal) Unanswered() Set { return p.unanswered }
