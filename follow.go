package quorumlock

import (
	"github.com/quorumlock/quorumlock/node"
)

// In a mixed fleet, waiters also hear what Redisson's clients are told when a lock is
// released: the subscriptions follow the names that somebody waits for. What each does follow
// is brought in line with that by a task of its own, one name after the other.

// want counts one more, or one less, who waits for names. The mutex is held.
func (b *inboxes) want(names []string, more int) {
	if !b.client.cfg.Redisson {
		return
	}
	for _, name := range names {
		if b.wanted[name] += more; b.wanted[name] == 0 {
			delete(b.wanted, name)
		}
	}
	for i := range b.boxes {
		b.align(i)
	}
}

// align has a subscription follow what is wanted. The mutex is held.
func (b *inboxes) align(i int) {
	box := &b.boxes[i]
	follower, ok := box.sub.(node.Follower)
	if !ok || box.aligning || box.deaf || b.closed {
		return
	}
	box.aligning = true
	b.tasks.Go(func() {
		for b.alignOne(i, follower) {
			continue
		}
	})
}

// alignOne follows one more name, or one less, and reports whether there may be more to do.
// What fails is tried again when something changes: until then the waiters have to look by
// themselves.
func (b *inboxes) alignOne(i int, follower node.Follower) bool {
	b.mu.Lock()
	box := &b.boxes[i]
	if b.replaced(i, follower) {
		b.mu.Unlock()
		return false
	}
	name, follow, ok := box.misaligned(b.wanted)
	box.aligning = ok
	b.mu.Unlock()
	if !ok {
		return false
	}

	var err error
	if follow {
		err = follower.Follow(name)
	} else {
		follower.Unfollow(name)
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.replaced(i, follower):
		return false
	case err != nil:
		box.aligning = false
		b.complain(i, err)
		return false
	case follow:
		box.follows[name] = true
	default:
		delete(box.follows, name)
	}
	return true
}

// replaced reports whether another subscription has taken the place of this one, and has that
// brought in line, if so. The mutex is held.
func (b *inboxes) replaced(i int, follower node.Follower) bool {
	box := &b.boxes[i]
	if same, _ := box.sub.(node.Follower); same == follower {
		return false
	}
	box.aligning = false
	b.align(i)
	return true
}

// misaligned is a name that is followed and not wanted, or wanted and not followed.
func (box *inbox) misaligned(wanted map[string]int) (name string, follow, ok bool) {
	for name := range wanted {
		if !box.follows[name] {
			return name, true, true
		}
	}
	for name := range box.follows {
		if wanted[name] == 0 {
			return name, false, true
		}
	}
	return "", false, false
}

// complain reports once that a node does not let this client hear of Redisson's releases.
func (b *inboxes) complain(i int, err error) {
	if !b.boxes[i].complained {
		b.boxes[i].complained = true
		b.client.warn("quorumlock: waiters do not hear when Redisson releases a lock, and look once a second", "node", b.client.nodes.Name(i), "err", err)
	}
}

// announced tells those who wait for a lock that it was released.
func (b *inboxes) announced(i int, name string) {
	now := b.client.clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.entries {
		e.announced(i, name, now)
	}
}
