package mutant

// world has the mutants of the protocol's assumptions: they show where promises end, and that
// the simulation goes up to there.
var world = []Mutant{
	{
		Name:  "clocks-too-different",
		Rule:  "Clocks run at rates within 1% of each other.",
		Then:  "A lease outlasts its keys: two leases.",
		World: true,
		Edits: []Edit{{
			Old: `const most = 0.00495`,
			New: `const most = 0.01`,
		}},
	},
	{
		Name:  "keys-evicted",
		Rule:  "Nodes evict nothing.",
		Then:  "They forget locks without notice: two leases.",
		World: true,
		Edits: []Edit{{
			Old: `		s.Save()
	}
}`,
			New: `		for _, name := range s.Keys() {
			found := make([]node.Reply, 1)
			s.Do(ctx, []node.Op{{Kind: node.Inspect, Names: []string{name}}}, found)
			for _, h := range found[0].Holders {
				s.Do(ctx, []node.Op{{Kind: node.Release, Names: []string{name}, Owner: h.Owner}}, found)
			}
		}
		s.Save()
	}
}`,
		}},
	},
}
