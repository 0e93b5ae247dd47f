package quorumlock

import "slices"

// Leases returns the leases of the locks, in the order of acquisition: one for each lock, or one
// for several names that were taken in one step. They tell what a JointLease does not: owners, and
// the time for which each is valid. Release the JointLease, not one of these: with one of them, all
// of it ends.
func (l *JointLease) Leases() []*Lease { return slices.Clone(l.leases()) }
