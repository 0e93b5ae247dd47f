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

// inspectPermits lists violations of a semaphore as a whole: permits whose numbers are not below
// how many there are, and more of them at one instant than there were. (Grants that need one
// number to have been set at two times are for porcupine to find.) That each permit with a
// number is one holder's, and that its tokens grow, is for the model of a lock.
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

// most is the most permits that there can have been at an instant between two times: what was
// configured, unless another number was set for certain before; and each number that was set,
// unless another one was set after it for certain, and before. What failed, or has no return,
// may be set at any time since its call.
func (p *permits) most(from, to time.Duration, configured int) int {
	var settled time.Duration // the last call of those that were set before
	for _, r := range p.resizes {
		if r.succeeded() && r.Return < from {
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

// numbers compares the number of each permit with how many there can have been when it was granted.
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

// resizesBefore are those that began by then.
func (p *permits) resizesBefore(to time.Duration) []Event {
	var all []Event
	for _, r := range p.resizes {
		if r.Call <= to {
			all = append(all, r)
		}
	}
	return all
}

// sums adds up what was held at one instant for certain. A lease holds its permits from the return
// of its grant until it was last seen valid; one that was not seen at all holds them at some
// instant of its acquisition, and so there must be one at which there was room.
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

// brief looks for an instant at which there was room for a lease. There is most of it when the
// acquisition begins, or where another lease ends.
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

// excess finds leases among those held at one instant that are for more permits than there can have
// been since the first of them was asked for, and how many that is. As nothing is taken from those
// who hold permits when there are fewer, the older ones may be too many for what there is now.
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

// sizeModel is that of how many permits there are: 0 as long as nobody has set it, and each client
// goes by its configuration.
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

// sizeOperations are the steps of one semaphore for sizeModel: those that set how many permits there
// are, and the grants of permits that there may not be at times. Until is a time after all others.
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
