package history

import (
	"time"

	"github.com/anishathalye/porcupine"
)

// latchState is the state of the model of a latch.
type latchState struct {
	// set is the number that the latch is set to; 0 if it is not set.
	set int
	// ids has a bit for each id that has counted down since.
	ids string
	// counted is the number of these ids.
	counted int
}

// left returns how many ids have still to count down.
func (s latchState) left() int { return max(0, s.set-s.counted) }

// count counts down for an id. A repetition changes nothing.
func (s latchState) count(id int) latchState {
	bits := make([]byte, max(len(s.ids), id/8+1))
	copy(bits, s.ids)
	if bit := byte(1) << (id % 8); bits[id/8]&bit == 0 {
		bits[id/8] |= bit
		s.counted++
	}
	s.ids = string(bits)
	return s
}

// latchStep is a call that changed a latch, or reported its state.
type latchStep struct {
	event Event
	id    int // of a count-down
}

// next returns the state after a step, if the step is legal. A call that failed, or has no return, may have taken
// effect or not. Where it cannot take effect it does nothing, and it may come after all others.
func (s latchState) next(do *latchStep) (bool, latchState) {
	e := do.event
	switch {
	case e.Kind == Set && s.set == 0:
		return true, latchState{set: e.Count}
	case e.Kind == Set:
		return s.set == e.Count || !e.Succeeded(), s
	case e.Kind == CountDown && s.set == 0:
		return !e.Succeeded(), s
	case e.Kind == CountDown:
		return true, s.count(do.id)
	case e.Kind == Delete:
		return true, latchState{}
	default:
		return s.set > 0 && s.left() == e.Count, s
	}
}

func latchModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return latchState{} },
		Step: func(s, do, _ any) (bool, any) {
			ok, next := s.(latchState).next(do.(*latchStep))
			return ok, next
		},
	}
}

// latchOperations returns the calls of one latch for porcupine. An Await that succeeded is equivalent to a Count of
// 0. until is a time after all others.
func latchOperations(events []Event, until time.Duration) []porcupine.Operation {
	ids := map[string]int{}
	var ops []porcupine.Operation
	for _, e := range events {
		if e.tells() && !e.Succeeded() {
			continue
		}
		if _, ok := ids[e.ID]; e.Kind == CountDown && !ok {
			ids[e.ID] = len(ids)
		}
		ops = append(ops, porcupine.Operation{
			ClientId: len(ops), Input: &latchStep{event: e, id: ids[e.ID]},
			Call: int64(e.Call), Return: int64(min(e.latestReturn(), until)),
		})
	}
	return ops
}

// tells reports whether the call only reads the state of a latch.
func (e Event) tells() bool { return e.Kind == Await || e.Kind == Count }
