package main

// kind is the meaning of a span, which decides its fill.
type kind string

const (
	heldByA    kind = "a"
	heldByB    kind = "b"
	waiting    kind = "wait"
	away       kind = "away"
	recovering kind = "recover"
)

// span is a part of a row, in the time of the story.
type span struct {
	from, to float64
	kind     kind
	text     string
}

// row is a line of the picture.
type row struct {
	name  string
	spans []span
}

// mark is a moment of the story, with its caption.
type mark struct {
	at   float64
	text string
}

// end is the time at which the story ends.
const end = 20

// The story: five servers, and two clients of a lock.
var (
	clients = []row{
		{"client A", []span{{1, 12, heldByA, "holds the lock, token 41"}}},
		{"client B", []span{{6, 12, waiting, "waits in line"}, {12, 19, heldByB, "holds it, token 42"}}},
	}
	servers = []row{
		{"server 1", []span{{1, 12, heldByA, "A"}, {12, 19, heldByB, "B"}}},
		{"server 2", []span{
			{1, 3.5, heldByA, "A"},
			{3.5, 4.5, away, ""},
			{4.5, 15.5, recovering, ""},
			{5.5, 12, heldByA, "A, put back"},
			{15.5, 19, heldByB, "B"},
		}},
		{"server 3", []span{{1, 12, heldByA, "A"}, {12, 19, heldByB, "B"}}},
		{"server 4", []span{{1, 12, heldByA, "A"}, {12, 19, heldByB, "B"}}},
		{"server 5", []span{{1, 8, heldByA, "A"}, {8, 14, away, "cut off"}, {14, 19, heldByB, "B"}}},
	}
	marks = []mark{
		{1, "A has the lock on all five servers. Three would do."},
		{3.5, "Server 2 restarts without its memory. It gives nothing new until all that it may have forgotten has run out; A's renewal puts the lock back."},
		{8, "Server 5 is cut off. A does not notice: four of five back its lease."},
		{12, "A releases the lock. B, first in line, is woken and acquires it at once, with a larger token. Renewals put the lock on servers that came back."},
		{19, "If too few servers back a lease, its context ends before another client can acquire the lock."},
	}
)
