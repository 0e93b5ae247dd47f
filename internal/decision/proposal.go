package decision

import (
	"math"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
)

// Proposal is the state of one acquisition by one owner: the votes of the nodes, which of them took
// the proposed fencing token, and where the owner may have left something to undo. It is pure: it
// has no clock, does no I/O, and starts nothing. It is not safe for concurrent use.
//
// A writer proposes a token. A node that grants also says whether it took the token, or knows one
// as large. Once need nodes have granted and taken the token, the acquisition is won. If need nodes
// may grant and too few took the token, the writer proposes a higher one with [Proposal.Raise] to
// the nodes that have neither denied nor failed.
//
// A reader proposes none. The nodes report the largest token they know. The reader acts under a
// token that is at least as large as the token of every earlier writer. If too few nodes keep such
// a token, the reader writes it back with [Proposal.WriteBack].
type Proposal struct {
	votes, taken Tally
	reads        bool
	// won is set by Win. renewed is set once renewals were sent. From then on, an answer to the
	// acquisition no longer shows the state of this owner on the node.
	won, renewed bool
	// rounds counts the fan-outs: 1, and 1 more for each higher token or write-back.
	rounds uint8
	// Token is the last proposed token. Nodes keep End instead, the last token of the block that
	// begins with Token. After Win, they are the token and the end of the lease.
	Token, End uint64
	// ReadToken is the token under which a reader acts; 0 until it is known.
	ReadToken uint64
	// fences has the largest known token of each node. It is nil until a node reports one, and has no
	// tokens that nodes took before.
	fences []uint64
	// failed are the nodes that failed a fan-out of a reader. grown are the nodes whose fence has
	// grown since they told it: they rejected a token above that one.
	failed, grown Set
	// Exposed are the nodes that may have something of this owner: a release must reach them. Unanswered are the nodes with
	// an acquisition in flight. If the acquisition was lost, release each when it answers.
	Exposed, Unanswered Set
}

// Answer is the answer of a node to an acquisition, or the failure of the operation.
type Answer struct {
	Vote Vote
	// Proposed is the token that the operation carried.
	Proposed uint64
	// Known is, in a grant, the larger or equal token that kept the node from taking Proposed; 0 if
	// the node took Proposed. To a reader it is the largest token that the node knows.
	Known uint64
	// Fence is the largest token that the node reported, in a grant or a denial; 0 if none.
	Fence uint64
	// Unsent is set if the operation did not reach the node, or the node ran nothing of it. Repeated is set if it
	// may have run twice.
	Unsent, Repeated bool
}

// NewProposal returns an acquisition that needs `need` of the given number of nodes. The first
// proposal is token, and end is the last token of its block. Readers ignore both.
func NewProposal(nodes, need int, reads bool, token, end uint64) Proposal {
	return Proposal{
		votes: NewTally(nodes, need), taken: NewTally(nodes, need),
		reads: reads, Token: token, End: end,
	}
}

// Rounds returns how many fan-outs have begun.
func (p *Proposal) Rounds() int { return int(p.rounds) }

// Votes returns the votes on the acquisition, whatever tokens were proposed.
func (p *Proposal) Votes() *Tally { return &p.votes }

// Taken returns the votes on the token: granted by nodes that took it, denied by nodes that granted
// the lock and know a token as large.
func (p *Proposal) Taken() *Tally { return &p.taken }

// Begin starts a fan-out, and returns the nodes to ask.
func (p *Proposal) Begin() Set {
	p.rounds++
	return p.taken.nodesWith(Missing)
}

// Sent records that the acquisition is in flight to node i.
func (p *Proposal) Sent(i int) {
	p.Exposed, p.Unanswered = p.Exposed.With(i), p.Unanswered.With(i)
	if p.ReadToken != 0 {
		p.recount() // the node may yet take the reader's token
	}
}

// Answered records that the operation in flight to node i has ended. Call Answer next.
func (p *Proposal) Answered(i int) { p.Unanswered = p.Unanswered.Without(i) }

// Withdrawn records that the operation to node i is not sent, once the acquisition was lost. It reports whether no
// other operation of the acquisition can have reached the node, which then has nothing to undo.
func (p *Proposal) Withdrawn(i int) (never bool) {
	p.Answered(i)
	if p.rounds == 1 {
		p.Exposed = p.Exposed.Without(i)
	}
	return p.rounds == 1
}

// Answer counts the answer of node i, or the failure of the operation.
func (p *Proposal) Answer(i int, a Answer) {
	if a.Unsent && p.rounds == 1 && !p.won {
		p.Exposed = p.Exposed.Without(i) // no other round can have reached it
	}
	p.votes.Record(i, a.Vote)
	if a.Known > 0 && !p.reads && !a.Repeated && p.fence(i) != 0 && p.fence(i) < a.Proposed {
		p.grown = p.grown.With(i)
	}
	p.recordFence(i, a)
	switch {
	case p.reads:
		if a.Vote != Granted {
			p.failed = p.failed.With(i)
		}
		p.recount()
	case a.Vote != Granted:
		p.taken.Record(i, Unknown)
	case a.Proposed != p.Token: // the token has been raised since
	case a.Known == 0:
		p.taken.Record(i, Granted)
	default:
		p.taken.Record(i, Denied)
	}
	if a.Vote == Denied && a.Proposed == p.Token && !p.renewed && !a.Repeated {
		// The node has nothing of this owner: everything sent earlier was answered earlier.
		p.Exposed = p.Exposed.Without(i)
	}
}

// recordFence keeps the largest token that a node has reported or taken.
func (p *Proposal) recordFence(i int, a Answer) {
	switch {
	case a.Fence == 0 && p.fences == nil:
		return
	case p.fences == nil:
		p.fences = make([]uint64, p.votes.Nodes())
	}
	fence := a.Fence
	if a.Vote == Granted && !p.reads {
		fence = max(fence, p.End)
	}
	p.fences[i] = max(p.fences[i], fence)
}

// Implausible reports whether a node claims a token that it cannot have taken. maxAhead is MaxTTL +
// MaxClockSkew, in units of tokens.
//
// A node refuses proposals older than MaxTTL by its clock. So if it accepts ours, its clock is less
// than MaxTTL ahead of it. A node takes no token more than MaxClockSkew ahead of its clock. A
// proposal above a token beyond both bounds would be refused by all other nodes.
//
// While this owner holds the node, owners of other names may raise the token there: names share the
// places in which a node keeps tokens. [Proposal.Raise] prefers the other nodes then.
func (p *Proposal) Implausible(a Answer, maxAhead uint64) bool {
	return a.Known != 0 && a.Known >= a.Proposed+maxAhead
}

// moreRounds is how many more fan-outs than nodes an acquisition may take: other names may raise the
// fences meanwhile.
const moreRounds = 2

// Decided reports whether the acquisition is won or lost. It is lost if too many nodes denied or
// failed, or the token was raised too often. A late answer may change the token of a reader, and then
// Decided may become false again.
func (p *Proposal) Decided() bool {
	result := p.taken.Result()
	return result == Won || p.taken.Unknown() > p.taken.Nodes()-p.taken.Need() ||
		result == Lost && int(p.rounds) > p.taken.Nodes()+moreRounds
}

// NeedsHigherToken reports whether need nodes may grant, but too few took the token because they
// know a larger one. Usually one more fan-out suffices, else one for each node that answers late.
func (p *Proposal) NeedsHigherToken() bool { return p.taken.Result() == Lost && !p.Decided() }

// FenceToBeat returns the fence above which need nodes take a token, with any fences on the
// others. See [TokenToBeat].
func (p *Proposal) FenceToBeat() uint64 { return TokenToBeat(p.fences, p.taken.Need()) }

// Raise proposes a higher token to the nodes that have neither denied nor failed. next returns a token
// above the given one. Call Begin next. The owner stays the same, so the nodes that granted grant again.
func (p *Proposal) Raise(next func(above uint64) uint64) {
	last, n, need := p.taken, p.taken.Nodes(), p.taken.Need()
	p.taken = NewTally(n, need)
	fences := slices.Clone(p.fences)
	var failed Set
	for i := range n {
		if last.Vote(i) == Unknown {
			p.taken.Record(i, Unknown)
			failed = failed.With(i)
		}
	}
	// A proposal that the others take suffices. If it does not, all nodes count again.
	without := failed
	if rest := failed | p.grown; n-rest.Len() >= need {
		without = rest
	}
	for i := range without.All() {
		fences[i] = math.MaxUint64 // it takes nothing
	}
	p.Token = next(max(p.End, TokenToBeat(fences, need)))
	p.End = p.Token // a proposal that outbids others reserves no block
}

// WriteBack starts a fan-out in which nodes keep the reader's token. It returns the nodes to ask:
// the nodes that granted and know only smaller tokens.
func (p *Proposal) WriteBack() Set {
	p.rounds++
	return p.taken.nodesWith(Denied)
}

func (p *Proposal) fence(i int) uint64 {
	if p.fences == nil {
		return 0
	}
	return p.fences[i]
}

// recount determines the reader's token from the fences, and which nodes keep it.
func (p *Proposal) recount() {
	n, need := p.votes.Nodes(), p.votes.Need()
	if p.votes.Granted() >= need {
		p.ReadToken = p.readTokenBy(nil, 0) // whatever this reader's rule needs: the rule of a writer may be another one
	}
	p.taken = NewTally(n, need)
	for i := range n {
		p.taken.Record(i, p.readVote(i))
	}
}

// readTokenBy returns the token by the fences of the nodes that granted; with claims, only of those where these are active now.
func (p *Proposal) readTokenBy(c *Claims, now time.Duration) uint64 {
	var buf [quorum.MaxNodes]uint64
	fences := buf[:0]
	for i := range p.votes.Nodes() {
		if p.votes.Vote(i) == Granted && (c == nil || c.Expiry(i) > now) {
			fences = append(fences, p.fence(i))
		}
	}
	return ReadToken(fences, p.votes.Nodes())
}

// readVote is the vote of node i on the reader's token: whether the node keeps one as large, or may
// be asked to.
func (p *Proposal) readVote(i int) Vote {
	switch vote := p.votes.Vote(i); {
	case vote == Missing, vote == Granted && p.ReadToken == 0:
		return Missing
	case vote != Granted:
		return Unknown
	case p.fence(i) >= p.ReadToken:
		return Granted
	case p.failed.Has(i):
		return Unknown
	case p.Unanswered.Has(i):
		return Missing
	default:
		return Denied
	}
}

// Win turns the acquisition into a lease, and reports whether it did. It needs need nodes that
// granted, took the token, and have a claim that is active now. The token of a reader is at least the one by these claims: a writer
// may have got a larger token on nodes where its other claims have run out.
func (p *Proposal) Win(c *Claims, now time.Duration) bool {
	token := p.ReadToken
	if p.reads {
		token = max(token, p.readTokenBy(c, now))
	}
	active := 0
	for i := range c.Nodes() {
		if c.Expiry(i) > now && p.taken.Vote(i) == Granted && p.fence(i) >= token {
			active++
		}
	}
	if p.taken.Result() != Won || active < p.taken.Need() {
		return false
	}
	p.won, p.ReadToken = true, token
	if p.reads {
		p.Token, p.End = token, token
	}
	return true
}

// Renews records that a renewal of this owner is in flight to these nodes.
func (p *Proposal) Renews(nodes Set) { p.renewed, p.Exposed = true, p.Exposed|nodes }
