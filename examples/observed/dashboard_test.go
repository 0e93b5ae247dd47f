package main

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// variables replaces the variables of Grafana in a query.
var variables = strings.NewReplacer("$__rate_interval", "5m", `"$job"`, `".*"`, `"$group"`, `".*"`)

type dashboard struct {
	Panels []struct {
		ID          int    `json:"id"`
		Type        string `json:"type"`
		Title       string `json:"title"`
		Description string `json:"description"`
		GridPos     struct{ H, W, X, Y int }
		Targets     []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name  string `json:"name"`
			Type  string `json:"type"`
			Query any    `json:"query"`
		} `json:"list"`
	} `json:"templating"`
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile("../../otel/grafana/quorumlock.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

func TestDashboardQueriesExistingMetrics(t *testing.T) {
	series, d := story(t), readDashboard(t)
	asked, ids := make(map[string]bool), make(map[int]bool)
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "two panels have the id %d", p.ID)
		ids[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.Description, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			for _, metric := range series.check(t, variables.Replace(target.Expr)) {
				asked[metric] = true
			}
		}
	}
	for metric := range series {
		name, _, part := cutPart(metric)
		if strings.HasPrefix(metric, "quorumlock_") && !part {
			require.True(t, asked[metric], "%s is on no panel", metric)
		} else if part && strings.HasSuffix(metric, "_count") {
			require.True(t, asked[name+"_count"] || asked[name+"_bucket"], "%s is on no panel", name)
		}
	}
}

// cutPart splits the name of a histogram's series into the histogram and the suffix.
func cutPart(metric string) (name, part string, ok bool) {
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		if name, ok := strings.CutSuffix(metric, "_seconds"+part); ok {
			return name + "_seconds", part, true
		}
	}
	return metric, "", false
}

func TestDashboardVariablesHaveValues(t *testing.T) {
	series, d := story(t), readDashboard(t)
	values := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	names := make(map[string]bool)
	for _, v := range d.Templating.List {
		names[v.Name] = true
		if v.Type != "query" {
			continue
		}
		query, ok := v.Query.(map[string]any)
		require.True(t, ok, v.Name)
		m := values.FindStringSubmatch(query["query"].(string)) //nolint:forcetypeassert // a test
		require.NotNil(t, m, v.Name)
		matched := series.matched(t, m[1])
		require.NotEmpty(t, matched, "no metric matches %s", m[1])
		for metric, found := range series {
			for _, value := range found[m[2]] {
				require.True(t, slices.ContainsFunc(matched, func(other string) bool {
					return slices.Contains(series[other][m[2]], value)
				}), "the variable %s lacks %q, a value of %s", v.Name, value, metric)
			}
		}
	}
	require.Equal(t, map[string]bool{"datasource": true, "job": true, "group": true}, names)
}
