package quorumlock

import "time"

// nextLapse is when the next claim runs out unless it is renewed.
func (h *hold) nextLapse() time.Duration {
	if h.client.cfg.Hooks.BackingChanged == nil {
		return never // no hook to tell
	}
	return h.claims.NextLapse(h.client.clock.Now())
}

// reportBacking tells the hook if the number of nodes that back a held lease is another
// than when that was told last. While the slower votes of the acquisition are out it
// is not news. The mutex is held.
func (h *hold) reportBacking(now time.Duration) {
	hook := h.client.cfg.Hooks.BackingChanged
	if hook == nil || h.phase != held || h.proposal.Votes().Missing() > 0 {
		return
	}
	have := h.claims.Backing(now)
	if have == int(h.backing) {
		return
	}
	h.backing = uint8(have) //nolint:gosec // of at most quorum.MaxNodes
	fire(&h.client.reports, hook, BackingEvent{
		Names: h.lock.Names(), Owner: h.owner, Have: have, Want: h.claims.Nodes(), Need: h.lock.need,
	})
}
