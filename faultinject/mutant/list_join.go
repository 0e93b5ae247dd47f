package mutant

// joins has the mutants of locks that are held together, which chaos finds: the simulation
// has none.
var joins = []Mutant{
	{
		Name: "joint-lease-outlives-one",
		Rule: "The loss of one of several joined locks is the loss of all.",
		Then: "Their holder relies on a lock that another client has by now.",
		Real: true,
		Edits: []Edit{{
			Old: `case l.markEnded(cause):`,
			New: `case cause == nil && l.markEnded(cause):`,
		}, {
			Old: `	for i := 0; over == nil && i < len(held); i++ {`,
			New: `	for i := 0; over == nil && i < min(len(held), 1); i++ {`,
		}},
	},
	{
		Name: "lost-joint-lease-keeps-the-others",
		Rule: "When one of several joined locks is lost, the others are given back.",
		Then: "No client gets them as long as their holder lives.",
		Real: true,
		Edits: []Edit{{
			Old: `		return l.beginReleases
`,
			New: `		return l.releasesBegun.Done
`,
		}},
	},
	{
		Name: "failed-join-keeps-some",
		Rule: "A client that does not get all of several joined locks releases those that it got.",
		Then: "No other client gets them.",
		Real: true,
		Edits: []Edit{{
			Old: `			_ = l.Release(ctx)
			return nil, err`,
			New: `			return nil, err`,
		}},
	},
}
