package sim

import "fmt"

// Kind is the difference between a case and one of plain locks.
type Kind string

// The kinds of cases.
const (
	OfLocks   Kind = ""
	OfPermits Kind = "permits"
	OfLatches Kind = "latches"
	// OfTampering is of locks that are released by force and deleted by hand.
	OfTampering Kind = "tampering"
)

// Draw draws the case of a seed. It panics for an unknown kind.
func (k Kind) Draw(seed uint64) *Case {
	draw := k.draws()
	if draw == nil {
		panic(fmt.Sprintf("sim: no kind of cases is called %q", string(k)))
	}
	return draw(seed)
}

// draws returns the function that draws cases of this kind; nil for an unknown kind.
func (k Kind) draws() func(seed uint64) *Case {
	switch k {
	case OfLocks:
		return Draw
	case OfPermits:
		return DrawPermits
	case OfLatches:
		return DrawLatches
	case OfTampering:
		return DrawTampering
	}
	return nil
}
