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
	// A meter that only this process can reach. Others send it readings, each with the
	// token of the lease under which it was taken.
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
	fmt.Println(record(34, 2)) // the next holder
	fmt.Println(record(34, 3)) // may write again
	err := record(33, 4)       // the first holder was paused, and wakes up
	fmt.Println(errors.Is(err, fence.ErrStale), err)
	fmt.Println(record(0, 5))
	fmt.Println("reading:", meter.reading)
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// true fence: token 33 is stale: a later holder of the lock has been here, with 34
	// fence: the token is 0, which means that there is none: pass the Token of the lease
	// reading: 3
}

func ExampleNewGate() {
	// Stored data outlives the process, so the token is stored with it.
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
	// fence: token 33 is stale: a later holder of the lock has been here, with 34
	// kept
}

func TestGateAdmits(t *testing.T) {
	const largest = 1<<64 - 1
	for _, c := range []struct {
		name   string
		seen   uint64
		tokens []uint64
		// refused are the places in tokens of those that are stale.
		refused []int
	}{
		{"the first", 0, []uint64{1}, nil},
		{"growing ones, with gaps", 0, []uint64{1, 2, 5, largest}, nil},
		{"equal ones", 0, []uint64{7, 7, 7}, nil},
		{"not a smaller one", 0, []uint64{7, 6, 7}, []int{1}},
		{"not the second largest, later", 0, []uint64{5, 9, 1, 8, 9}, []int{2, 3}},
		{"what a refusal left alone", 0, []uint64{5, 4, 5, 6, 5}, []int{1, 4}},
		{"nothing before what was restored", 10, []uint64{9, 10, 9, 11}, []int{0, 2}},
		{"nothing after the largest there is", largest, []uint64{1, largest - 1, largest}, []int{0, 1}},
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
				var stale *fence.StaleError
				require.ErrorAs(t, err, &stale)
				assert.Equal(t, fence.StaleError{Token: token, Seen: seen}, *stale)
				assert.False(t, called, "a refused write was made")
			}
		})
	}
}

func TestGateWithoutToken(t *testing.T) {
	for _, gate := range []*fence.Gate{{}, fence.NewGate(5)} {
		err := gate.Do(0, func() error { t.Error("written without a token"); return nil })
		require.ErrorIs(t, err, fence.ErrNoToken)
		require.NotErrorIs(t, err, fence.ErrStale, "nobody else is to blame")
	}
}

func TestGateAfterAFailedWrite(t *testing.T) {
	var gate fence.Gate
	broken := errors.New("broken")
	require.Equal(t, broken, gate.Do(5, func() error { return broken }))
	require.ErrorIs(t, gate.Do(4, func() error { return nil }), fence.ErrStale,
		"the holder of 5 is there, and may have written half of it")
	require.NoError(t, gate.Do(5, func() error { return nil }), "it may try again")

	require.Panics(t, func() { _ = gate.Do(6, func() error { panic("broken") }) })
	require.ErrorIs(t, gate.Do(5, func() error { return nil }), fence.ErrStale)
	require.NoError(t, gate.Do(6, func() error { return nil }))
}

// Under the race detector it also shows that accesses exclude each other.
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

// A write that was admitted is over before a later holder's begins.
func TestGateHoldsBackTheNextHolder(t *testing.T) {
	var gate fence.Gate
	inside, finish := make(chan struct{}), make(chan struct{})
	var order []string // guarded by the gate alone
	var wg sync.WaitGroup
	wg.Go(func() {
		assert.NoError(t, gate.Do(1, func() error {
			close(inside)
			<-finish
			order = append(order, "first")
			return nil
		}))
	})
	<-inside
	wg.Go(func() {
		assert.NoError(t, gate.Do(2, func() error {
			order = append(order, "second")
			return nil
		}))
	})
	for range 10_000 { // occasions to get through, if it could
		runtime.Gosched()
	}
	close(finish)
	wg.Wait()
	assert.Equal(t, []string{"first", "second"}, order)
}
