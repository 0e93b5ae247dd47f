package mutant

// tokens has the mutants of what makes tokens grow.
var tokens = []Mutant{
	{
		Name: "fence-not-told",
		Rule: "A node that knows a token as large as the one proposed says so.",
		Then: "A slow client gets a smaller token than the fast one before it.",
		Edits: []Edit{{
			Old: `	return Reply{Outcome: Granted, Token: m.grant(op)}`,
			New: `	m.grant(op)
	return Reply{Outcome: Granted}`,
		}},
	},
	{
		Name: "fence-equal-taken",
		Rule: "A node takes a token only if it is larger than the fence, not if it is equal.",
		Then: "The same token is given twice.",
		Edits: []Edit{{
			Old: `if seen := m.fence(name); seen >= op.Token {`,
			New: `if seen := m.fence(name); seen > op.Token {`,
		}},
	},
	{
		Name: "no-second-token-round",
		Rule: "A grant counts only from nodes that took the token.",
		Then: "A lease has a token that is smaller than one before, on a node that said so.",
		Edits: []Edit{{
			Old: `	default:
		p.taken.Record(i, Denied)`,
			New: `	default:
		p.taken.Record(i, Granted)`,
		}},
	},
	{
		Name: "fence-short",
		Rule: "A fence lives until the node's clock is a recovery past the token.",
		Then: "It is gone when a slow client proposes a smaller token.",
		Edits: []Edit{{
			Old: `int64(token)/1000 + l.Recovery().Milliseconds()}`,
			New: `int64(token)/1000 + l.MaxTTL.Milliseconds()/4}`,
		}},
	},
	{
		Name: "fence-dies-with-the-lock",
		Rule: "A fence outlives the release of the lock.",
		Then: "The next holder has a smaller token.",
		Edits: []Edit{{
			File: "node/memory_ops.go",
			Old: `			delete(m.locks, name)
			removed++`,
			New: `			delete(m.locks, name)
			delete(m.fences, name)
			removed++`,
		}},
	},
	{
		Name: "fence-of-the-first-name",
		Rule: "A lock of several names raises the fence of each.",
		Then: "The next lease of the other name has a smaller token.",
		Edits: []Edit{{
			Old: `		} else {
			m.raise(name, op.end(), op.Limits)`,
			New: `		} else if name == op.Names[0] {
			m.raise(name, op.end(), op.Limits)`,
		}},
	},
	{
		Name: "old-token-taken",
		Rule: "A node takes no token that is older than MaxTTL.",
		Then: "A client whose clock is far behind gets a token that is smaller than one which the node has forgotten.",
		Edits: []Edit{{
			Old: `return instant(end) > now+l.MaxClockSkew.Microseconds() || instant(first) <= now-l.MaxTTL.Microseconds()`,
			New: `return instant(end) > now+l.MaxClockSkew.Microseconds()`,
		}},
	},
	{
		Name: "early-token-taken",
		Rule: "A node takes no token that is ahead of its clock by more than MaxClockSkew.",
		Then: "A client whose clock is far ahead gets a token, the node forgets it, and gives a smaller one.",
		Edits: []Edit{{
			Old: `return instant(end) > now+l.MaxClockSkew.Microseconds() || instant(first) <= now-l.MaxTTL.Microseconds()`,
			New: `return instant(first) <= now-l.MaxTTL.Microseconds()`,
		}},
	},
}
