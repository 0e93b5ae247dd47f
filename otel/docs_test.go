package quorumotel

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryAttributeIsDocumented: the documentation has each attribute of the code.
func TestEveryAttributeIsDocumented(t *testing.T) {
	source, err := os.ReadFile("trace.go")
	require.NoError(t, err)
	keys := regexp.MustCompile(`attribute\.Key\("([a-z_.]+)"\)`).FindAllStringSubmatch(string(source), -1)
	require.NotEmpty(t, keys)
	text, err := os.ReadFile(filepath.Join("..", "docs", "observability.md"))
	require.NoError(t, err)
	for _, key := range keys {
		require.Contains(t, string(text), "`"+key[1]+"`")
	}
}
