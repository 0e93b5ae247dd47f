package decision

import "fmt"

// Vote is the answer of one node in one round.
type Vote uint8

const (
	// Missing means that the node has not answered yet. It is the zero Vote.
	Missing Vote = iota
	// Granted means that the node confirmed the operation.
	Granted
	// Denied means that the node refused, and gave nothing.
	Denied
	// Unknown means a timeout, a broken connection or an error reply: the operation may have
	// happened. It never counts as a grant, and never proves that another owner holds the lock.
	Unknown
)

// String returns the name of the vote in lower case.
func (v Vote) String() string {
	switch v {
	case Missing:
		return "missing"
	case Granted:
		return "granted"
	case Denied:
		return "denied"
	case Unknown:
		return "unknown"
	default:
		return fmt.Sprintf("vote(%d)", uint8(v))
	}
}

// Result is the outcome of a round.
type Result uint8

const (
	// Pending means that the missing votes can still decide it either way. It is the zero Result.
	Pending Result = iota
	// Won means that enough nodes granted.
	Won
	// Lost means that too few nodes are left that could still grant.
	Lost
)

// String returns the name of the result in lower case.
func (r Result) String() string {
	switch r {
	case Pending:
		return "pending"
	case Won:
		return "won"
	case Lost:
		return "lost"
	default:
		return fmt.Sprintf("result(%d)", uint8(r))
	}
}
