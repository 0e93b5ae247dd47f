package sim

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
)

// inflict begins and ends one fault.
func (w *world) inflict(step faultinject.Step) {
	time.Sleep(step.At)
	w.note("%s %s begins%s", step.Fault, step.Target(), length(step))
	switch step.Fault {
	case faultinject.Freeze:
		p := w.process(step.Client)
		if p == nil {
			return
		}
		p.freezeNow()
		time.Sleep(step.For)
		w.looks()
		p.thaw()
	case faultinject.Murder:
		w.murder(step)
		return
	case faultinject.Part, faultinject.Deafen, faultinject.Mute, faultinject.Slow:
		w.bend(step, true)
		time.Sleep(step.For)
		w.bend(step, false)
	default:
		w.servers[step.Node].begin(step.Fault)
		time.Sleep(step.For)
		w.servers[step.Node].end(step.Fault)
	}
	if step.For > 0 {
		w.note("%s %s ends", step.Fault, step.Target())
	}
}

func length(step faultinject.Step) string {
	switch {
	case step.For == 0:
		return ""
	case step.Amount != 0:
		return fmt.Sprintf(", by %v for %v", step.Amount, step.For)
	default:
		return fmt.Sprintf(", for %v", step.For)
	}
}

func (w *world) murder(step faultinject.Step) {
	w.mu.Lock()
	p := w.processes[step.Client]
	w.processes[step.Client] = nil
	w.mu.Unlock()
	if p == nil {
		return
	}
	w.died(p)
	p.kill()
	time.Sleep(step.For)
	w.start(step.Client)
	w.note("%s starts", w.process(step.Client).label)
}

// bend starts a fault on its ways, or ends it.
func (w *world) bend(step faultinject.Step, begin bool) {
	for client, ways := range w.ways {
		for server, way := range ways {
			if (step.Client == faultinject.All || step.Client == client) && (step.Node == faultinject.All || step.Node == server) {
				way.bend(step, begin)
			}
		}
	}
}
