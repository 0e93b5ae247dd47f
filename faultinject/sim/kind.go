package sim

import "fmt"

// Kind says how a case differs from one of plain locks.
type Kind string

// The kinds of cases.
const (
	OfLocks   Kind = ""
	OfPermits Kind = "permits"
	OfLatches Kind = "latches"
	// OfTampering is of locks that are released by force and deleted by hand.
	OfTampering Kind = "tampering"
)

// Draw makes the case of a seed. It panics if there is no such kind.
func (k Kind) Draw(seed uint64) *Case {
	draw := k.draws()
	if draw == nil {
		panic(fmt.Sprintf("sim: no kind of cases is called %q", string(k)))
	}
	return draw(seed)
}

// draws is what makes a case of this kind; nil if there is none.
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
