package cell

import "time"

// Recovery describes how a killed node came back, and the throughput meanwhile.
type Recovery struct {
	// Killed is when the node was killed, in seconds since measuring began. Back is the time from then until it
	// answered. Gives is the time from that answer until the node granted a lock. Never is set if it granted none
	// before the end.
	Killed float64 `json:"killedSeconds"`
	Back   float64 `json:"backSeconds"`
	Gives  float64 `json:"givesSeconds"`
	Never  bool    `json:"neverGives,omitempty"`
	// Before, During and After are operations per second: before the kill, from the kill until the node granted locks
	// again, and from then on.
	Before float64 `json:"before"`
	During float64 `json:"during"`
	After  float64 `json:"after"`
	// Pause is the longest time in seconds during which no operation ended.
	Pause float64 `json:"pauseSeconds"`
}

// Step is the width of one step of a timeline.
const Step = 100 * time.Millisecond

// Phases computes the rates from a timeline of the whole measured time.
func (r *Recovery) Phases(timeline []int64) {
	killed, gives := r.Killed, r.Killed+r.Back+r.Gives
	end := float64(len(timeline)) * Step.Seconds()
	if r.Never {
		gives = end
	}
	r.Before, r.During, r.After = rate(timeline, 0, killed), rate(timeline, killed, gives), rate(timeline, gives, end)
}

// rate returns operations per second between two times, given in seconds. A step that lies partly between them counts
// in proportion.
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
