package measure

import (
	"strings"
	"sync"

	"github.com/quorumlock/quorumlock"
)

// backing records, for each lease that not all nodes back, how many more of them may fail. Clients that share the
// hooks use it concurrently.
type backing struct {
	mu    sync.Mutex
	spare map[string]int
}

// whole stands for a lease that all nodes back.
const whole = -1

// change is a lease's move from one count to another.
type change struct{ from, to int }

func (b *backing) changed(e quorumlock.BackingEvent) change {
	spare := max(e.Have-e.Need, 0) // with fewer it is about to end
	if e.Have == e.Want {
		spare = whole
	}
	return b.move(e.Owner, spare)
}

func (b *backing) move(owner string, to int) change {
	b.mu.Lock()
	defer b.mu.Unlock()
	from, ok := b.spare[owner]
	if !ok {
		from = whole
	}
	if to == whole {
		delete(b.spare, owner)
	} else {
		b.spare[owner] = to
	}
	return change{from, to}
}

// seen is the set of nodes or groups for which something is known.
type seen struct{ sync.Map }

// first adds a name, and reports whether it is new.
func (s *seen) first(name string) bool {
	_, known := s.LoadOrStore(name, true)
	return !known
}

// maxGroups bounds the number of lock groups.
const maxGroups = 100

// groups assigns locks to groups, if a function for that is set.
type groups struct {
	sort  func(name string) string
	mu    sync.Mutex
	known map[string]bool
}

// of returns the group of a lock, by its first name.
func (g *groups) of(names []string) string {
	if g.sort == nil || len(names) == 0 {
		return ""
	}
	group := strings.ToValidUTF8(g.sort(names[0]), "\uFFFD") // names may be any bytes, and labels may not
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.known[group]:
	case len(g.known) >= maxGroups:
		return other
	default:
		g.known[group] = true
	}
	return group
}
