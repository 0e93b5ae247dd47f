package inbox

import "github.com/quorumlock/quorumlock/internal/wire"

// wantLocked adjusts the number of users of each name, and aligns the subscriptions with that.
func (s *Set) wantLocked(names []string, delta int) {
	if !s.follows {
		return
	}
	for _, name := range names {
		if s.wanted[name] += delta; s.wanted[name] == 0 {
			delete(s.wanted, name)
		}
	}
	for i := range s.subscriptions {
		s.alignLocked(i)
	}
}

// alignLocked starts a task that makes a subscription follow the wanted names, one after the other.
func (s *Set) alignLocked(i int) {
	sub := &s.subscriptions[i]
	follower, ok := sub.inbox.(wire.Follower)
	if !ok || sub.aligning || sub.lost || s.closed {
		return
	}
	sub.aligning = true
	s.tasks.Go(func() {
		for s.alignOne(i, follower) {
			continue
		}
	})
}

// alignOne follows or unfollows one name, and reports whether there may be more to do. A failure is
// tried again when something changes. Until then the waiters notice the releases of Redisson's
// clients only when they ask again.
func (s *Set) alignOne(i int, follower wire.Follower) bool {
	s.mu.Lock()
	sub := &s.subscriptions[i]
	if s.replacedLocked(i, follower) {
		s.mu.Unlock()
		return false
	}
	name, follow, ok := sub.misaligned(s.wanted)
	sub.aligning = ok
	s.mu.Unlock()
	if !ok {
		return false
	}

	var err error
	if follow {
		err = follower.Follow(name)
	} else {
		follower.Unfollow(name)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.replacedLocked(i, follower):
		return false
	case err != nil:
		sub.aligning = false
		if !sub.reported {
			sub.reported = true
			s.handler.CannotFollow(i, err)
		}
		return false
	case follow:
		sub.following[name] = true
	default:
		delete(sub.following, name)
	}
	return true
}

// replacedLocked reports whether another subscription has replaced this one. If so, it aligns that.
func (s *Set) replacedLocked(i int, follower wire.Follower) bool {
	sub := &s.subscriptions[i]
	if same, _ := sub.inbox.(wire.Follower); same == follower {
		return false
	}
	sub.aligning = false
	s.alignLocked(i)
	return true
}

// misaligned returns a name that is followed and not wanted, or wanted and not followed.
func (sub *subscription) misaligned(wanted map[string]int) (name string, follow, ok bool) {
	for name := range wanted {
		if !sub.following[name] {
			return name, true, true
		}
	}
	for name := range sub.following {
		if wanted[name] == 0 {
			return name, false, true
		}
	}
	return "", false, false
}
