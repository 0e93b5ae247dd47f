package mutant

// readers has the mutants of what lets many read, or one write.
var readers = []Mutant{
	{
		Name: "reader-beside-a-writer",
		Rule: "A node grants no reader a name that a writer holds.",
		Then: "A reader and a writer have the lock at once.",
		Edits: []Edit{{
			File: "node/memory_readers.go",
			Old:  `m.longestHolder(op.Names, op.place())`,
			New:  `m.longestHolder(nil, op.place())`,
		}},
	},
	{
		Name: "first-reader-frees-the-lock",
		Rule: "A lock is free when its last reader has gone.",
		Then: "The first of two readers to go lets a writer in beside the other.",
		Edits: []Edit{{
			Old: `		return true, m.dropReaders(name)`,
			New: `		delete(m.locks, name)
		return true, true`,
		}},
	},
	{
		Name: "reader-on-a-forgetful-node",
		Rule: "A node that has lost its memory grants no new readers.",
		Then: "A reader gets the node that forgot its writer, and one that the writer never had.",
		Edits: []Edit{{
			Old: `	case left > 0:`,
			New: `	case left > 0 && !op.Reads:`,
		}},
	},
	{
		Name: "reader-of-one-node-s-token",
		Rule: "The token of a reader is kept by a majority.",
		Then: "The next reader asks other nodes, and acts under a smaller one.",
		Edits: []Edit{{
			Old: `case p.fence(i) >= p.readToken:`,
			New: `case p.fence(i) > 0:`,
		}},
	},
	{
		Name: "reader-of-the-smallest-token",
		Rule: "The token of a reader is as large as that of every writer before.",
		Then: "A reader acts under the token of a writer before the last.",
		Edits: []Edit{{
			Old: `	rank := len(fences) - (n - need)`,
			New: `	rank := len(fences)`,
		}},
	},
	{
		Name: "forgotten-tokens-are-none",
		Rule: "Where no token is known, a reader gets one as large as all that were forgotten.",
		Then: "The first reader after a recovery, or after a while, acts under a smaller one than the writer before.",
		Edits: []Edit{{
			Old: `		token = minFence(op, m.time())`,
			New: `		token = 1`,
		}},
	},
	{
		Name: "downgrade-in-two-steps",
		Rule: "A writer becomes a reader in one step on each node.",
		Then: "Another writer comes in between the release and the acquisition.",
		Edits: []Edit{{
			Old: `			delete(m.locks, name)
		}
		m.addReader`,
			New: `			delete(m.locks, name)
			continue
		}
		m.addReader`,
		}},
	},
	{
		Name: "last-reader-wakes-nobody",
		Rule: "The release of a lock wakes its first waiter.",
		Then: "A writer learns of the release of the last reader when it looks by itself.",
		Edits: []Edit{{
			File: "node/memory_readers.go",
			Old:  `	m.wakeNext(op)`,
			New:  `	m.restoreEntry(op.Names, op.Waiter)`,
		}},
	},
}
