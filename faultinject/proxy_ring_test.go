package faultinject

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestByteRingIsAQueue(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ring := newByteRing(7)
	var in, out bytes.Buffer
	next := byte(0)
	for range 5000 {
		if rng.IntN(2) == 0 {
			free := ring.free()
			require.Equal(t, ring.full(), len(free) == 0)
			n := rng.IntN(len(free) + 1)
			for i := range n {
				free[i] = next
				in.WriteByte(next)
				next++
			}
			ring.fill(n)
		} else {
			most := rng.IntN(9)
			used := ring.used(most)
			require.LessOrEqual(t, len(used), most)
			if most > 0 && ring.size > 0 {
				require.NotEmpty(t, used)
			}
			out.Write(used)
			ring.drop(len(used))
		}
		require.Equal(t, in.Len()-out.Len(), ring.size)
	}
	for ring.size > 0 {
		used := ring.used(ring.size)
		out.Write(used)
		ring.drop(len(used))
	}
	require.Greater(t, in.Len(), 1000)
	require.Equal(t, in.Bytes(), out.Bytes())
}

// What a reader puts into its room stays, whatever is taken out meanwhile.
func TestByteRingIsFilledWhileItIsEmptied(t *testing.T) {
	ring := newByteRing(4)
	copy(ring.free(), "ab")
	ring.fill(2)
	room := ring.free()
	ring.drop(2)
	copy(room, "cd")
	ring.fill(2)
	require.Equal(t, "cd", string(ring.used(4)))
}
