package worker

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLongestPause(t *testing.T) {
	var p pause
	p.begin(100)
	for _, now := range []int64{130, 140, 200, 210} {
		p.ended(now)
	}
	assert.Equal(t, int64(60), p.longest.Load())
	p.ended(300)
	assert.Equal(t, int64(90), p.longest.Load(), "the end counts")
}
