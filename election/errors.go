package election

import "errors"

// Errors, and causes of the end of a term, for errors.Is. Errors of package quorumlock may come too.
var (
	// ErrDone is returned by lead functions: the candidate resigns and does not stand again, and Run returns nil.
	ErrDone = errors.New("election: done")
	// ErrResigned is the cause of the end of a term's context after Resign.
	ErrResigned = errors.New("election: resigned")
	// ErrRunning: Run was called while another Run of the same Election had not returned.
	ErrRunning = errors.New("election: already running: one Run at a time; make another Election for another candidate")
	// ErrNoLeader: no candidate holds the lock on enough nodes.
	ErrNoLeader = errors.New("election: no leader")
	// ErrOverdue: a lead function still runs after the end of its context. The error of Healthy also wraps the cause of
	// that end.
	ErrOverdue = errors.New("election: the lead function still runs after the end of its context")
	// ErrPanicked replaces the error of a lead function that did not return: it panicked, or ended its goroutine.
	ErrPanicked = errors.New("election: the lead function panicked, or called runtime.Goexit")
)
