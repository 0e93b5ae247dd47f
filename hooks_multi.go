package quorumlock

// MultiHooks are hooks that tell all of these, in this order: for a program that has its own,
// and metrics besides. What none of them wants to know stays nil, and so costs nothing.
func MultiHooks(all ...Hooks) Hooks {
	return Hooks{
		Acquired:       multi(all, func(h Hooks) func(AcquiredEvent) { return h.Acquired }),
		Acquisition:    multi(all, func(h Hooks) func(AcquisitionEvent) { return h.Acquisition }),
		Voted:          multi(all, func(h Hooks) func(VoteEvent) { return h.Voted }),
		AttemptFailed:  multi(all, func(h Hooks) func(AttemptFailedEvent) { return h.AttemptFailed }),
		Renewed:        multi(all, func(h Hooks) func(RenewedEvent) { return h.Renewed }),
		RenewalFailed:  multi(all, func(h Hooks) func(RenewalFailedEvent) { return h.RenewalFailed }),
		BackingChanged: multi(all, func(h Hooks) func(BackingEvent) { return h.BackingChanged }),
		Ended:          multi(all, func(h Hooks) func(EndedEvent) { return h.Ended }),
		LossFound:      multi(all, func(h Hooks) func(LossFoundEvent) { return h.LossFound }),
		Latch:          multi(all, func(h Hooks) func(LatchEvent) { return h.Latch }),
		NodeDown:       multiDown(all),
		NodeUp:         multi(all, func(h Hooks) func(string) { return h.NodeUp }),
		NodeRecovering: multi(all, func(h Hooks) func(NodeRecoveringEvent) { return h.NodeRecovering }),
	}
}

// multi calls one function of each.
func multi[E any](all []Hooks, of func(Hooks) func(E)) func(E) {
	var set []func(E)
	for _, h := range all {
		if f := of(h); f != nil {
			set = append(set, f)
		}
	}
	switch len(set) {
	case 0:
		return nil
	case 1:
		return set[0]
	}
	return func(event E) {
		for _, f := range set {
			f(event)
		}
	}
}

// multiDown is multi for the one that takes two arguments.
func multiDown(all []Hooks) func(node string, err error) {
	type down struct {
		node string
		err  error
	}
	one := multi(all, func(h Hooks) func(down) {
		if h.NodeDown == nil {
			return nil
		}
		return func(d down) { h.NodeDown(d.node, d.err) }
	})
	if one == nil {
		return nil
	}
	return func(node string, err error) { one(down{node, err}) }
}
