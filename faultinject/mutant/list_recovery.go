package mutant

// recovery has the mutants of what keeps a node that forgot from doing harm.
var recovery = []Mutant{
	{
		Name: "no-recovery",
		Rule: "A node that lost its memory gives nothing new for a time.",
		Then: "H holds nodes 1 and 2; node 1 restarts; H' takes 1 and 3.",
		Edits: []Edit{{
			Old: `until := m.time() + limits.Recovery().Microseconds()`,
			New: `until := m.time()`,
		}},
	},
	{
		Name: "recovery-shorter-than-a-ttl",
		Rule: "A recovery lasts at least as long as the longest TTL.",
		Then: "The recovery is over while a claim lasts that the node has forgotten.",
		Edits: []Edit{{
			Old: `until := m.time() + limits.Recovery().Microseconds()`,
			New: `until := m.time() + (limits.MaxTTL * 3 / 4).Microseconds()`,
		}},
	},
	{
		Name: "recovery-without-skew",
		Rule: "A recovery lasts for MaxClockSkew longer than the longest TTL.",
		Then: "The node forgets the token of a fast client, and takes one as large from a slow client.",
		Edits: []Edit{{
			Old: `until := m.time() + limits.Recovery().Microseconds()`,
			New: `until := m.time() + limits.MaxTTL.Microseconds()`,
		}},
	},
	{
		Name: "recovery-not-begun-again",
		Rule: "A node that loses its memory while it recovers begins to recover anew.",
		Then: "A holder re-asserts its claim, the node forgets that too, and its first recovery ends before the claim does.",
		Edits: []Edit{{
			Old: `			until = max(until, m.marker.Until)`,
			New: `			if m.marker.Until > m.time() {
				until = m.marker.Until
			}`,
		}},
	},
	{
		Name: "any-heal-counts",
		Rule: "A recovering node's confirmation counts only for a holder whose own claim there is still active.",
		Then: "H heals on node 3, which was emptied, and counts it; its claim on 1 lapses; H' has 3, from before the crash, and 1.",
		Edits: []Edit{{
			Old: `if recovering && *e <= now {`,
			New: `if recovering && *e < 0 {`,
		}},
	},
	{
		Name: "renew-ignores-the-marker",
		Rule: "A renewal looks at the marker too, and tells that the node recovers.",
		Then: "The node is flushed, H heals there and counts it, beside H' who had it before.",
		Edits: []Edit{{
			Old: `func (m *Memory) renew(op Op) Reply {
	refusal, left := m.mayRenew(op)`,
			New: `func (m *Memory) renew(op Op) Reply {
	var refusal Reply
	left := max(0, 0*op.TTL)`,
		}},
	},
	{
		Name: "unmarked-node-grants",
		Rule: "A node without a marker gives nothing new: whether it is new or has forgotten everything cannot be told.",
		Then: "Node 1 is flushed, and H' takes 1 and 3.",
		Edits: []Edit{{
			Old: `	case left > 0:`,
			New: `	case left > 0 && m.marker.Restarted:`,
		}},
	},
	{
		Name: "identity-not-checked",
		Rule: "The marker counts only with the identity of the server as it runs now.",
		Then: "A restart brings the marker back from the disk, and not the locks behind it.",
		Edits: []Edit{{
			Old: `	if m.marker == nil || m.marker.Identity != m.identity {`,
			New: `	if m.marker == nil {`,
		}},
	},
	{
		Name: "identity-not-checked-by-renew",
		Rule: "A renewal compares the identity too.",
		Then: "After a restart from an old disk, H heals on a node and counts it, beside H' who had it before.",
		Edits: []Edit{{
			Old: `func (m *Memory) renew(op Op) Reply {
	refusal, left := m.mayRenew(op)`,
			New: `func (m *Memory) renew(op Op) Reply {
	var refusal Reply
	var left time.Duration
	if m.marker != nil {
		left = m.recovery()
	} else {
		refusal, left = m.mayRenew(op)
	}`,
		}},
	},
}
