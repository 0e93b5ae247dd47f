package election

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoValueAfterTheLeadFunction: a term ends when its lead function returns, a moment before its context does. A
// Proclaim that is under way then fails.
func TestNoValueAfterTheLeadFunction(t *testing.T) {
	e, over := &Election{}, &term{ctx: t.Context()}
	_, err := e.setValue(over, nil, 0)
	require.ErrorIs(t, err, ErrNotLeading)
	e.term = over
	_, err = e.setValue(over, nil, 0)
	require.NoError(t, err)
}
