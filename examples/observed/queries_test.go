package main

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

// scraped has the metrics after the scenario: for each series its labels, and their values.
type scraped map[string]map[string][]string

// scrape collects the exporter's metrics, and the series that Prometheus derives from histograms.
func scrape(t *testing.T, tel *telemetry) scraped {
	t.Helper()
	families, err := tel.registry.Gather()
	require.NoError(t, err)
	all := make(scraped)
	for _, f := range families {
		// Prometheus adds these labels.
		found := map[string][]string{"job": {"service"}, "instance": {"localhost:9464"}}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				found[l.GetName()] = append(found[l.GetName()], l.GetValue())
			}
		}
		if f.GetType() != dto.MetricType_HISTOGRAM {
			all[f.GetName()] = found
			continue
		}
		all[f.GetName()+"_count"], all[f.GetName()+"_sum"] = found, found
		buckets := map[string][]string{"le": {"+Inf"}}
		maps.Copy(buckets, found)
		all[f.GetName()+"_bucket"] = buckets
	}
	return all
}

// check requires that the metrics and labels of a query exist. The values that it selects must occur in the metrics or in
// the documentation. check returns the metrics.
func (s scraped) check(t *testing.T, query string) (metrics []string) {
	t.Helper()
	expr, err := parser.ParseExpr(query)
	require.NoError(t, err, query)
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			require.Contains(t, s, n.Name, "no such metric: %s", query)
			metrics = append(metrics, n.Name)
			for _, m := range n.LabelMatchers {
				s.checkMatcher(t, n.Name, m, query)
			}
		case *parser.AggregateExpr:
			for _, label := range n.Grouping {
				require.True(t, s.groups(n.Expr, label), "no metric of the query has the label %s: %s", label, query)
			}
		}
		return nil
	})
	require.NotEmpty(t, metrics, query)
	return metrics
}

// matched returns the metrics whose names a selector matches.
func (s scraped) matched(t *testing.T, selector string) (metrics []string) {
	t.Helper()
	matchers, err := parser.ParseMetricSelector(selector)
	require.NoError(t, err, selector)
	for metric := range s {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return m.Name == labels.MetricName && !m.Matches(metric) }) {
			metrics = append(metrics, metric)
		}
	}
	return metrics
}

func (s scraped) checkMatcher(t *testing.T, metric string, m *labels.Matcher, query string) {
	t.Helper()
	if m.Name == labels.MetricName {
		return
	}
	require.Contains(t, s[metric], m.Name, "%s has no such label: %s", metric, query)
	for value := range strings.SplitSeq(m.Value, "|") {
		if value != "" && value != ".*" && !slices.Contains(s[metric][m.Name], value) {
			require.Contains(t, documented(t), "`"+value+"`", "%s never has this value: %s", m.Name, query)
		}
	}
}

// groups reports whether a metric below has a label.
func (s scraped) groups(expr parser.Expr, label string) bool {
	found := false
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			_, has := s[v.Name][label]
			found = found || has
		}
		return nil
	})
	return found
}

const documentation = "../../docs/observability.md"

func documented(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(documentation)
	require.NoError(t, err)
	return string(text)
}
