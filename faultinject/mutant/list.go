package mutant

import "slices"

// All lists the mutants. Those on one rule stand together. The slice is the caller's.
func All() []Mutant {
	return slices.Concat(recovery, exclusion, validity, losses, tokens, undoing, waiting, readers, semaphores, latches, joins, world, scripts)
}
