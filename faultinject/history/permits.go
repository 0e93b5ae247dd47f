package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// inspectPermits lists the grants of slots beyond the size that a semaphore can have had. Porcupine finds grants that need one
// size at two times. The model of a lock checks that each slot has one holder, and that its tokens grow. So no more permits
// are held than there are.
func inspectPermits(f *finder, events []Event) {
	p := permits{finder: f}
	for _, e := range events {
		if e.Kind == Resize {
			p.resizes = append(p.resizes, e)
		}
	}
	for _, e := range events {
		if e.granted() {
			p.compare(e)
		}
	}
}

type permits struct {
	*finder
	resizes []Event
}

// most returns the largest size that the semaphore can have had at an instant between two times. The configured size
// counts unless another size was certainly set before. Each set size counts unless another was certainly set after
// it, and before the end of the period. A Resize that failed, or has no return, may take effect at any time since
// its call.
func (p *permits) most(from, to time.Duration, configured int) int {
	var settled time.Duration // the last call of those that were set before
	for _, r := range p.resizes {
		if r.Succeeded() && r.Return < from {
			settled = max(settled, r.Call)
		}
	}
	size := 0
	if settled == 0 {
		size = configured
	}
	for _, r := range p.resizes {
		if r.Call <= to && r.latestReturn() >= settled {
			size = max(size, r.Size)
		}
	}
	return size
}

// compare compares the slots of a grant with the possible sizes.
func (p *permits) compare(grant Event) {
	last := slices.Max(grant.Slots)
	if size := p.most(requested(grant), grant.Return, grant.Size); last >= size {
		p.add(BeyondSize, fmt.Sprintf("lease %s was granted slot %d at %s, when there were no more than %d permits",
			who(&lease{grant: grant}), last, p.interval(grant), size), append([]Event{grant}, p.resizesBefore(grant.Return)...)...)
	}
}

// requested returns from when on the sizes of the semaphore count for a grant, or when another event was called.
func requested(e Event) time.Duration { return min(e.Call, cmp.Or(e.SizeSince, e.Call)) }

// resizesBefore returns the calls of Resize that began by then.
func (p *permits) resizesBefore(to time.Duration) []Event {
	var all []Event
	for _, r := range p.resizes {
		if r.Call <= to {
			all = append(all, r)
		}
	}
	return all
}

// sizeModel is the model of a semaphore's size: 0 until a client has set it. Until then each client uses its
// configured size.
func sizeModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return 0 },
		Step: func(size, do, _ any) (bool, any) {
			e := do.(Event)
			if e.Kind == Resize {
				return true, e.Size
			}
			return slices.Max(e.Slots) < cmp.Or(size.(int), e.Size), size
		},
	}
}

// sizeOperations returns the steps of one semaphore for sizeModel: changes of its size, and grants of permits whose
// numbers are not below every size. until is a time after all others.
func sizeOperations(events []Event, until time.Duration) []porcupine.Operation {
	least := math.MaxInt
	for _, e := range events {
		least = min(least, e.Size)
	}
	var ops []porcupine.Operation
	for _, e := range events {
		if e.Kind == Resize || e.granted() && slices.Max(e.Slots) >= least {
			ops = append(ops, porcupine.Operation{
				ClientId: len(ops), Input: e, Call: int64(requested(e)), Return: int64(min(e.latestReturn(), until)),
			})
		}
	}
	return ops
}
