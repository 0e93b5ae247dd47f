package node

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMilliseconds(t *testing.T) {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for round := range 3 {
				for ms := range int64(1000) {
					d := time.Duration(ms)*time.Millisecond + time.Duration(round)
					assert.Equal(t, strconv.FormatInt(ms, 10), milliseconds(d))
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, "31536000000", milliseconds(365*24*time.Hour))
	require.Equal(t, "-5", milliseconds(-5*time.Millisecond))
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = milliseconds(10 * time.Second) }))
}
