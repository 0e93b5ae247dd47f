package sim

import (
	"fmt"

	"github.com/quorumlock/quorumlock/node"
)

// ran records a server's operations in the history.
func (w *world) ran(l *link, x *exchange) {
	for i := range x.ops {
		w.latch.answered(w, l.server.index, x.replies[i])
	}
	w.tampering.ran(l.server.index, x)
	if !w.traced {
		return
	}
	for i, op := range x.ops {
		w.note("%s asks %s to %s %v%s for %s%s: %s", l.process.label, l.Name(), op.Kind, op.Names, reader(op), w.short(op.Owner), tokenOf(op), w.answer(x.replies[i]))
	}
}

// heard records a message from a server to a process in the history.
func (w *world) heard(l *link, m node.Message) {
	switch {
	case !w.traced:
	case m.Waiter == "":
		w.note("%s finds its subscription to %s %v", l.process.label, l.Name(), m.Kind)
	default:
		w.note("%s tells %s: %v is %s, for %q", l.Name(), l.process.label, w.short(m.Waiter), m.Kind, m.Name)
	}
}

func reader(op node.Op) string {
	if op.Reads {
		return ", to read,"
	}
	return ""
}

func tokenOf(op node.Op) string {
	if op.Token == 0 || op.Kind != node.Acquire {
		return ""
	}
	return fmt.Sprintf(" with token %d", op.Token)
}

func (w *world) answer(r node.Reply) string {
	text := r.Outcome.String()
	switch {
	case r.Err != nil:
		text = r.Err.Error()
	case r.Latch != nil:
		text += ", " + latchState(r.Latch)
	case r.Outcome == node.Denied:
		text += fmt.Sprintf(" by %s for %v", w.short(r.Holder.Owner), r.Holder.TTL)
	case r.Token != 0:
		text += fmt.Sprintf(", but knows token %d", r.Token)
	}
	if r.Recovering > 0 && r.Err == nil {
		text += fmt.Sprintf(" (recovering for %v)", r.Recovering)
	}
	return text
}
