package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// rules is a Prometheus file of alerting rules.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert       string
			Expr        string
			For         string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

// TestAlertsGiveReasons: each alert has a reason, a page to read, and only labels that its query keeps.
func TestAlertsGiveReasons(t *testing.T) {
	file, err := os.Open(filepath.Join(root, "otel/alerts.yaml"))
	require.NoError(t, err)
	defer file.Close()
	var all rules
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&all))
	require.Len(t, all.Groups, 1)
	require.NotEmpty(t, all.Groups[0].Rules)
	known := make(map[string]bool)
	for _, r := range all.Groups[0].Rules {
		require.Regexp(t, "^Quorumlock[A-Z]", r.Alert)
		require.False(t, known[r.Alert], r.Alert)
		known[r.Alert] = true
		require.Contains(t, []string{"critical", "warning", "info"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["reason"], r.Alert)
		for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(r.Annotations["summary"], -1) {
			require.Contains(t, r.Expr, m[1], "%s: the query drops the label", r.Alert)
		}
		path, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "#")
		require.Equal(t, "docs/handbook.md", path, r.Alert)
		require.Contains(t, read(t, path).anchors(), anchor, r.Alert)
	}
}
