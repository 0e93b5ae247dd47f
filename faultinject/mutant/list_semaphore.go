package mutant

// semaphores has the mutants of slots: the simulation finds them in cases with a semaphore.
var semaphores = []Mutant{
	{
		Name: "slot-held-twice",
		Rule: "A node grants a slot to one owner.",
		Then: "Two have the same permit, and all together one more than there are.",
		Kind: "permits",
		Edits: []Edit{{
			Old: `		case held && h.Owner != op.Owner:`,
			New: `		case held && h.Owner != op.Owner && len(op.Names) > 1:`,
		}},
	},
	{
		Name: "nodes-choose-slots",
		Rule: "The client names the slots, the same ones on all nodes.",
		Then: "Each node is within its bound, and more have a majority than there are permits: it is a counter.",
		Kind: "permits",
		Edits: []Edit{{
			Old: `	var denial Holder
	free := 0
`,
			New: `	var denial Holder
	free := 0
	op.Names = slices.Clone(op.Names)
	for i, name := range op.Names {
		if h, held := m.holder(name); held && h.Owner != op.Owner {
			if s := m.freeSlots(p); len(s.free) > 0 {
				op.Names[i] = SlotName(p.Name, s.free[0])
			}
		}
	}
`,
		}},
	},
	{
		Name: "slots-undone-elsewhere",
		Rule: "A failed attempt releases every slot that it took.",
		Then: "A slot without a holder stays taken, and is found at the end.",
		Kind: "permits",
		Edits: []Edit{{
			File: "node/memory_pool.go",
			Old: `	for _, name := range op.Names {
		if h, held := m.holder(name); held && h.Owner == op.Owner {
			delete(m.locks, name)
`,
			New: `	for _, name := range op.Names[:1] {
		if h, held := m.holder(name); held && h.Owner == op.Owner {
			delete(m.locks, name)
`,
		}},
	},
}
