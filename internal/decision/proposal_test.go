package decision

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A node rejects each proposal with a token just above it. If the other nodes are enough, the next proposal is
// larger than their fences, and does not only follow this node.
func TestRaisePrefersNodesWhoseFencesStayTheSame(t *testing.T) {
	for _, c := range []struct {
		name string
		// second and last are the answers to the second proposal. second comes from the other node
		// with a large fence, and last from the node that rejects all.
		second, last Answer
		above        uint64
	}{
		{"the others are enough", Answer{Vote: Granted, Known: 1000}, Answer{Vote: Granted, Known: 13}, 1000},
		{"the answer may be the second of two runs", Answer{Vote: Granted, Known: 1000}, Answer{Vote: Granted, Known: 13, Repeated: true}, 13},
		{"too few others are left", Answer{Vote: Unknown}, Answer{Vote: Granted, Known: 13}, 13},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := NewProposal(3, 2, false, 5, 5)
			round := func(answers ...Answer) (above uint64) {
				for i := range p.Begin().All() {
					p.Sent(i)
					p.Answered(i)
					answers[i].Proposed, answers[i].Fence = p.Token, answers[i].Known
					p.Answer(i, answers[i])
				}
				require.True(t, p.NeedsHigherToken())
				p.Raise(func(a uint64) uint64 {
					above = a
					return NextToken(0, a)
				})
				return above
			}
			require.EqualValues(t, 11, round(
				Answer{Vote: Granted, Known: 10}, Answer{Vote: Granted, Known: 1000}, Answer{Vote: Granted, Known: 11}))
			require.Equal(t, c.above, round(Answer{Vote: Granted}, c.second, c.last))
		})
	}
}

func send(p *Proposal, to Set) {
	for i := range to.All() {
		p.Sent(i)
	}
}

// A reader is frozen in the middle of its acquisition, until its first claims have run out. A writer gets a token from three of
// the nodes meanwhile. What these told the reader before does not count.
func TestReaderCountsFencesOfActiveClaimsOnly(t *testing.T) {
	const ttl = time.Second
	p, claims := NewProposal(5, 3, true, 0, 0), NewClaims(5)
	answer := func(i int, sent time.Duration, fence uint64) {
		p.Answered(i)
		claims.Confirm(i, sent, ttl, sent, false)
		p.Answer(i, Answer{Vote: Granted, Known: fence, Fence: fence})
	}
	send(&p, p.Begin())
	answer(0, 0, 8)
	answer(1, 0, 8)
	answer(2, 0, 9)
	p.Answered(3)
	p.Answer(3, Answer{Vote: Unknown})
	require.True(t, p.NeedsHigherToken())
	again := p.WriteBack()
	require.Equal(t, Set(0).With(0).With(1), again)
	send(&p, again)
	// The writer has token 11, on nodes 2, 3 and 4. Then the requests that the reader had queued reach their nodes.
	answer(0, ttl, 9)
	answer(1, ttl, 9)
	answer(4, ttl, 11)
	require.EqualValues(t, 9, p.ReadToken)
	require.Equal(t, 3, claims.Backing(ttl))
	require.False(t, p.Win(&claims, ttl))
}

// A late answer lowers the token of a reader while nodes are asked to keep the larger one. Once they do, the reader has that too:
// what it wrote itself must not look like the token of a later writer.
func TestReaderWinsWithTheTokenThatItHasWrittenBack(t *testing.T) {
	p, claims := NewProposal(4, 3, true, 0, 0), NewClaims(4)
	token := func(i int, fence uint64) uint64 {
		p.Answered(i)
		claims.Confirm(i, 0, time.Second, 0, false)
		p.Answer(i, Answer{Vote: Granted, Known: fence, Fence: fence})
		return p.ReadToken
	}
	send(&p, p.Begin())
	require.Equal(t, []uint64{0, 0, 9}, []uint64{token(0, 9), token(1, 5), token(2, 6)})
	send(&p, p.WriteBack())
	require.Equal(t, []uint64{7, 9}, []uint64{token(3, 7), token(1, 9)})
	require.False(t, p.Decided(), "a third node has yet to answer that it has 9")
	require.EqualValues(t, 9, token(2, 9))
	require.True(t, p.Win(&claims, 0))
}

// A writer is frozen until the claim of a node that took its token has run out. Another writer got a larger token from that node and
// from a third one, which then granted the first writer the lock without its token. The first writer is too late.
func TestWriterNeedsItsTokenOnNodesWithActiveClaims(t *testing.T) {
	const ttl = time.Second
	p, claims := NewProposal(3, 2, false, 10, 10), NewClaims(3)
	answer := func(i int, sent time.Duration, known uint64) {
		p.Answered(i)
		claims.Confirm(i, sent, ttl, sent, false)
		p.Answer(i, Answer{Vote: Granted, Proposed: 10, Known: known, Fence: known})
	}
	send(&p, p.Begin())
	answer(0, 0, 0)
	answer(1, ttl/2, 0)
	require.True(t, p.Decided())
	answer(2, ttl/2, 20)
	require.Equal(t, 2, claims.Backing(ttl))
	require.False(t, p.Win(&claims, ttl))
}
