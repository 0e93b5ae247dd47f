package faultinject

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestByteRingIsAQueue(t *testing.T) {
	for _, bound := range []int{7, 10_000} {
		t.Run(strconv.Itoa(bound), func(t *testing.T) { queueThrough(t, bound) })
	}
}

// queueThrough adds and removes at random, up to the bound.
func queueThrough(t *testing.T, bound int) {
	rng := rand.New(rand.NewPCG(1, 2))
	ring := newByteRing(bound)
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
			most := rng.IntN(bound + 2)
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

// TestByteRingIsFilledWhileItIsEmptied: data that a reader puts into its room stays valid while other data is taken
// out.
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

// An idle connection takes little memory, however large its buffers may get.
func TestByteRingStartsSmallAndGrowsToItsBound(t *testing.T) {
	const bound = 100_000
	ring := newByteRing(bound)
	require.LessOrEqual(t, len(ring.free()), 4<<10)
	require.LessOrEqual(t, len(ring.bytes), 4<<10)
	for !ring.full() {
		room := ring.free()
		require.NotEmpty(t, room)
		ring.fill(len(room))
		require.LessOrEqual(t, ring.size, bound)
	}
	require.Equal(t, bound, ring.size)
	require.Len(t, ring.bytes, bound)
	require.Empty(t, ring.free())
}

// Traffic in small pieces, which are taken out before the next come, needs no more room.
func TestByteRingStaysSmallForSmallTraffic(t *testing.T) {
	ring := newByteRing(1 << 20)
	for range 10_000 {
		room := ring.free()
		n := min(100, len(room))
		require.Positive(t, n)
		ring.fill(n)
		ring.drop(n)
	}
	require.LessOrEqual(t, len(ring.bytes), 4<<10)
}

// A sender that has more each time than there is room for is read in larger and larger
// pieces, also if each is passed on before the next.
func TestByteRingGrowsForAStream(t *testing.T) {
	const bound = 1 << 20
	ring := newByteRing(bound)
	for range 20 {
		n := len(ring.free())
		ring.fill(n)
		ring.drop(n)
	}
	require.Len(t, ring.free(), bound)
}

// TestByteRingGrowsWhileItIsEmptied: a slice of one side stays valid when the other grows the ring.
func TestByteRingGrowsWhileItIsEmptied(t *testing.T) {
	ring := newByteRing(1 << 20)
	first := ring.free()
	for i := range first {
		first[i] = byte(i)
	}
	ring.fill(len(first))
	ring.drop(1000)
	tail := ring.used(len(first)) // it is being written meanwhile
	want := bytes.Clone(tail)
	copy(ring.free(), "around")
	ring.fill(len("around"))
	for range 3 {
		room := ring.free()
		require.NotEmpty(t, room)
		clear(room)
		ring.fill(len(room))
	}
	require.Greater(t, len(ring.bytes), len(first))
	require.Equal(t, want, tail)
	require.Equal(t, want, ring.used(len(tail)))
	ring.drop(len(tail))
	require.Equal(t, "around", string(ring.used(len("around"))))
}
