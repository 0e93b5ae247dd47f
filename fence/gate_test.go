package fence_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/fence"
)

func ExampleGate() {
	// Only this process can write to the meter. Lock holders in other processes send readings to it, each
	// with the token of its lease.
	var meter struct {
		gate    fence.Gate
		reading int
	}
	record := func(token uint64, reading int) error {
		return meter.gate.Do(token, func() error {
			meter.reading = reading
			return nil
		})
	}

	fmt.Println(record(33, 1))
	fmt.Println(record(34, 2)) // This is the next holder.
	fmt.Println(record(34, 3)) // It may write again.
	err := record(33, 4)       // The first holder was paused, and writes late.
	fmt.Println(errors.Is(err, fence.ErrStale), err)
	fmt.Println(record(0, 5))
	fmt.Println("reading:", meter.reading)
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// true fence: token 33 is stale: the largest seen is 34
	// fence: no token: pass the Token of the lease, not 0
	// reading: 3
}

func ExampleNewGate() {
	// The file outlives the process, so the token is stored in it, too.
	var file struct {
		text  string
		token uint64
	}
	write := func(gate *fence.Gate, token uint64, text string) error {
		return gate.Do(token, func() error {
			file.text, file.token = text, token
			return nil
		})
	}

	fmt.Println(write(fence.NewGate(file.token), 34, "kept"))
	// The process restarts.
	fmt.Println(write(fence.NewGate(file.token), 33, "late"))
	fmt.Println(file.text)
	// Output:
	// <nil>
	// fence: token 33 is stale: the largest seen is 34
	// kept
}

func TestGateAdmits(t *testing.T) {
	const largest = 1<<64 - 1
	for _, c := range []struct {
		name   string
		seen   uint64
		tokens []uint64
		// refused lists the indexes of the stale tokens.
		refused []int
	}{
		{"first token", 0, []uint64{1}, nil},
		{"growing tokens with gaps", 0, []uint64{1, 2, 5, largest}, nil},
		{"equal tokens", 0, []uint64{7, 7, 7}, nil},
		{"a smaller token", 0, []uint64{7, 6, 7}, []int{1}},
		{"a late token below the largest", 0, []uint64{5, 9, 1, 8, 9}, []int{2, 3}},
		{"a refusal changes nothing", 0, []uint64{5, 4, 5, 6, 5}, []int{1, 4}},
		{"tokens below a restored one", 10, []uint64{9, 10, 9, 11}, []int{0, 2}},
		{"tokens below the largest possible", largest, []uint64{1, largest - 1, largest}, []int{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			gate := fence.NewGate(c.seen)
			seen := c.seen
			for i, token := range c.tokens {
				called := false
				err := gate.Do(token, func() error { called = true; return nil })
				if !slices.Contains(c.refused, i) {
					require.NoError(t, err, "token %d, number %d", token, i)
					assert.True(t, called)
					seen = token
					continue
				}
				require.ErrorIs(t, err, fence.ErrStale)
				require.NotErrorIs(t, err, fence.ErrNoToken)
				var stale *fence.StaleError
				require.ErrorAs(t, err, &stale)
				assert.Equal(t, fence.StaleError{Token: token, Seen: seen}, *stale)
				assert.False(t, called, "a refused token reached the resource")
			}
		})
	}
}

func TestGateWithoutToken(t *testing.T) {
	for _, gate := range []*fence.Gate{{}, fence.NewGate(5)} {
		err := gate.Do(0, func() error { t.Error("written without a token"); return nil })
		require.ErrorIs(t, err, fence.ErrNoToken)
		require.NotErrorIs(t, err, fence.ErrStale, "a missing token is not stale")
	}
}

func TestGateAfterAFailedWrite(t *testing.T) {
	var gate fence.Gate
	broken := errors.New("broken")
	require.Equal(t, broken, gate.Do(5, func() error { return broken }))
	require.ErrorIs(t, gate.Do(4, func() error { return nil }), fence.ErrStale,
		"holder 5 was admitted, and may have written something")
	require.NoError(t, gate.Do(5, func() error { return nil }), "holder 5 may write again")

	require.Panics(t, func() { _ = gate.Do(6, func() error { panic("broken") }) })
	require.ErrorIs(t, gate.Do(5, func() error { return nil }), fence.ErrStale)
	require.NoError(t, gate.Do(6, func() error { return nil }))
}

// The race detector also checks here that writes exclude each other.
func TestGateUnderConcurrency(t *testing.T) {
	const holders, writes = 64, 50
	var gate fence.Gate
	var admitted []uint64 // guarded by the gate alone
	refused := make([]int, holders)

	tokens := rand.Perm(holders)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range holders {
		wg.Go(func() {
			token := uint64(tokens[i] + 1)
			<-start
			for range writes {
				err := gate.Do(token, func() error {
					admitted = append(admitted, token)
					return nil
				})
				if err != nil {
					assert.ErrorIs(t, err, fence.ErrStale)
					refused[i]++
				}
			}
		})
	}
	close(start)
	wg.Wait()

	require.True(t, slices.IsSorted(admitted), "an older token was admitted after a newer one: %v", admitted)
	assert.EqualValues(t, holders, admitted[len(admitted)-1])
	total := len(admitted)
	for i, n := range refused {
		total += n
		if tokens[i]+1 == holders {
			assert.Zero(t, n, "the largest token is never refused")
		}
	}
	assert.Equal(t, holders*writes, total)
}

// The gate admits the next holder only after the write of the first one has ended. A holder that waits for the gate is
// refused if a later holder enters before it.
func TestGateComparesTokensOnEntry(t *testing.T) {
	var gate fence.Gate
	inside, finish := make(chan struct{}), make(chan struct{})
	var admitted []uint64 // guarded by the gate alone
	var wg sync.WaitGroup
	wg.Go(func() {
		assert.NoError(t, gate.Do(1, func() error {
			close(inside)
			<-finish
			admitted = append(admitted, 1)
			return nil
		}))
	})
	<-inside
	for _, token := range []uint64{3, 2} {
		wg.Go(func() {
			_ = gate.Do(token, func() error {
				admitted = append(admitted, token)
				return nil
			})
		})
		for range 10_000 { // Let it come to the gate before the next one.
			runtime.Gosched()
		}
	}
	close(finish)
	wg.Wait()
	assert.True(t, slices.IsSorted(admitted), "an older token was admitted after a newer one: %v", admitted)
	assert.Subset(t, admitted, []uint64{1, 3})
}
