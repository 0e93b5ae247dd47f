package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// inspectPermits lists violations of a semaphore as a whole: permits whose numbers are not below its size, and more
// permits at one instant than its size. Porcupine finds grants that need one size at two times. The model of a lock
// checks that each numbered permit has one holder, and that its tokens grow.
func inspectPermits(f *finder, events []Event, all []*lease) {
	p := permits{finder: f}
	for _, e := range events {
		if e.Kind == Resize {
			p.resizes = append(p.resizes, e)
		}
	}
	for _, l := range all {
		if l.grant.about(f.subject) {
			p.leases = append(p.leases, l)
		}
	}
	p.numbers()
	p.sums()
}

type permits struct {
	*finder
	resizes []Event
	leases  []*lease
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

// numbers compares the number of each permit with the possible sizes at its grant.
func (p *permits) numbers() {
	for _, l := range p.leases {
		if len(l.grant.Slots) == 0 {
			continue
		}
		last := slices.Max(l.grant.Slots)
		if size := p.most(l.grant.Call, l.grant.Return, l.grant.Size); last >= size {
			p.add(BeyondSize, fmt.Sprintf("lease %s was granted slot %d at %s, when there were no more than %d permits",
				who(l), last, p.interval(l.grant), size), append([]Event{l.grant}, p.resizesBefore(l.grant.Return)...)...)
		}
	}
}

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

// sums adds up the permits that were certainly held at one instant. A lease holds its permits from the return of its
// grant until it was last seen valid. A lease that was never seen valid holds them at some instant of its
// acquisition, so there must be one at which they were available.
func (p *permits) sums() {
	var lasting, brief []*lease
	for _, l := range p.leases {
		if l.validUntil() > l.grant.Return {
			lasting = append(lasting, l)
		} else {
			brief = append(brief, l)
		}
	}
	slices.SortStableFunc(lasting, func(a, b *lease) int { return cmp.Compare(a.grant.Return, b.grant.Return) })
	var active []*lease
	for _, l := range lasting {
		at := l.grant.Return
		active = slices.DeleteFunc(active, func(other *lease) bool { return other.validUntil() <= at })
		active = append(active, l)
		if held, size := p.excess(active, at); held != nil {
			p.tooMany(held, size, at)
		}
	}
	for _, l := range brief {
		p.brief(l, lasting)
	}
}

// brief looks for an instant at which a lease's permits were available. The best candidates are the begin of the
// acquisition, and the ends of other leases.
func (p *permits) brief(l *lease, lasting []*lease) {
	var beside []*lease
	from := l.grant.Call
	if len(l.seen) > 0 {
		from = l.grant.Return // it was seen valid right then
	}
	instants := []time.Duration{from}
	for _, other := range lasting {
		if other.grant.Return >= l.grant.Return {
			break
		}
		if end := other.validUntil(); end > from {
			beside = append(beside, other)
			if end <= l.grant.Return {
				instants = append(instants, end)
			}
		}
	}
	var worst []*lease
	size := 0
	for _, at := range instants {
		held := []*lease{l}
		for _, other := range beside {
			if other.grant.Return < at && at < other.validUntil() {
				held = append(held, other)
			}
		}
		held, limit := p.excess(held, l.grant.Return)
		if held == nil {
			return
		}
		if worst == nil {
			worst, size = held, limit
		}
	}
	p.tooMany(worst, size, from)
}

// excess finds leases, among those held at one instant, that have more permits than the semaphore can have had since
// the first of them was requested. It also returns that size. Shrinking a semaphore takes no permit from a holder, so
// older leases may exceed the current size.
func (p *permits) excess(active []*lease, at time.Duration) (held []*lease, size int) {
	newest := slices.SortedStableFunc(slices.Values(active), func(a, b *lease) int {
		return cmp.Compare(b.grant.Call, a.grant.Call)
	})
	sum, configured := 0, 0
	for i, l := range newest {
		sum += l.grant.Permits
		configured = max(configured, l.grant.Size)
		if size := p.most(l.grant.Call, at, configured); sum > size {
			return newest[:i+1], size
		}
	}
	return nil, 0
}

func (p *permits) tooMany(held []*lease, size int, at time.Duration) {
	sum := 0
	var each []string
	var grants, last []Event
	for _, l := range slices.Backward(held) {
		sum += l.grant.Permits
		each = append(each, fmt.Sprintf("%d by lease %s, %s to %s (%s)", l.grant.Permits, who(l), p.interval(l.grant),
			p.at(l.validUntil()), l.lastSeen().Kind))
		grants, last = append(grants, l.grant), append(last, l.lastSeen())
	}
	p.add(TooMany, fmt.Sprintf("%d permits were held at %s, and there were no more than %d: %s", sum, p.at(at), size, strings.Join(each, "; ")),
		slices.Concat(grants, last)...)
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
		if e.Kind == Resize || e.granted() && len(e.Slots) > 0 && slices.Max(e.Slots) >= least {
			ops = append(ops, porcupine.Operation{
				ClientId: len(ops), Input: e, Call: int64(e.Call), Return: int64(min(e.latestReturn(), until)),
			})
		}
	}
	return ops
}
