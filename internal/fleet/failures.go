package fleet

import (
	"context"
	"math/rand/v2"
	"time"
)

// Shake makes random nodes fail, at most two at a time, until ctx ends. Failures are stops, pauses and losses of memory.
// Every failed node is back when Shake returns.
func (f *Fleet) Shake(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
		i := rng.IntN(len(f.Nodes))
		j := (i + 1 + rng.IntN(len(f.Nodes)-1)) % len(f.Nodes)
		pause := time.Duration(rng.IntN(3000)) * time.Millisecond
		switch rng.IntN(5) {
		case 0:
			f.Stop(i, j)
			time.Sleep(pause)
			f.Start(i, j)
		case 1:
			f.Pause(i, j)
			time.Sleep(pause)
			f.Resume(i, j)
		case 2:
			f.Stop(i)
			f.Pause(j)
			time.Sleep(pause)
			f.Resume(j)
			f.Start(i)
		case 3:
			f.Nodes[i].Flush()
			time.Sleep(RecoveryTime)
		default:
			f.Nodes[i].Save()
			time.Sleep(pause)
			f.Nodes[i].Crash()
			time.Sleep(RecoveryTime)
		}
	}
}
