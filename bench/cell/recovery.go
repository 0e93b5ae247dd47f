package cell

import "time"

// Recovery is how a node came back that was killed, and what that did to the throughput.
type Recovery struct {
	// Killed is when the node was, from the begin of what is measured, in seconds. Back is how much
	// later it answered again, and Gives how much later than that it gave a lock; Never is set if it
	// did not before the end.
	Killed float64 `json:"killedSeconds"`
	Back   float64 `json:"backSeconds"`
	Gives  float64 `json:"givesSeconds"`
	Never  bool    `json:"neverGives,omitempty"`
	// Before, During and After are operations a second: until it was killed, from then until it
	// gave locks again, and from then on.
	Before float64 `json:"before"`
	During float64 `json:"during"`
	After  float64 `json:"after"`
	// Pause is the longest time in which no operation ended, in seconds.
	Pause float64 `json:"pauseSeconds"`
}

// Step is the width of a step of a timeline.
const Step = 100 * time.Millisecond

// Phases finds the rates of a timeline that is as long as what was measured.
func (r *Recovery) Phases(timeline []int64) {
	killed, gives := r.Killed, r.Killed+r.Back+r.Gives
	end := float64(len(timeline)) * Step.Seconds()
	if r.Never {
		gives = end
	}
	r.Before, r.During, r.After = rate(timeline, 0, killed), rate(timeline, killed, gives), rate(timeline, gives, end)
}

// rate is operations a second between two times, in seconds; of a step that is only in part
// between them, that part counts.
func rate(timeline []int64, from, to float64) float64 {
	if to <= from {
		return 0
	}
	step, sum := Step.Seconds(), 0.0
	for i, n := range timeline {
		begin := float64(i) * step
		if part := min(to, begin+step) - max(from, begin); part > 0 {
			sum += float64(n) * part / step
		}
	}
	return sum / (to - from)
}
