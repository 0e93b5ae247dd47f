package election

import "errors"

// What can go wrong, or end a term, for errors.Is. Besides, there are the errors of package quorumlock.
var (
	// ErrDone is for lead functions to return: the candidate resigns, does not stand again, and
	// Run returns nil.
	ErrDone = errors.New("election: done")
	// ErrResigned is the cause of the end of a term's context after Resign.
	ErrResigned = errors.New("election: resigned")
	// ErrRunning: Run was called while another Run of the same Election had not returned.
	ErrRunning = errors.New("election: already running: one Run at a time; make another Election for another candidate")
	// ErrNoLeader: nobody leads, as far as enough nodes know.
	ErrNoLeader = errors.New("election: nobody leads")
	// ErrPanicked stands for the error of a lead function that did not return: it panicked, or
	// ended its goroutine.
	ErrPanicked = errors.New("election: the lead function did not return: it panicked, or called runtime.Goexit")
)
