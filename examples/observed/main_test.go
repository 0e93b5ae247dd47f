package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// story runs the scenario in virtual time, and returns the resulting metrics.
func story(t *testing.T) (series scraped) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tel, err := newTelemetry()
		require.NoError(t, err)
		require.NoError(t, tel.watch(t.Context()))
		series = scrape(t, tel)
	})
	return series
}

func TestMetricsOfTheScenario(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, start(t.Context(), "", &out))
		lines := make(map[string]string)
		for line := range strings.Lines(out.String()) {
			// The value is the last column, except for histograms.
			fields := strings.Fields(line)
			if len(fields) > 1 {
				lines[strings.Join(fields[:len(fields)-1], " ")] = fields[len(fields)-1]
			}
		}
		require.Equal(t, "1", lines[`quorumlock_lease_end="hold_limit" quorumlock_lock_group="export"`])
		require.Equal(t, "1", lines[`quorumlock_lease_end="unconfirmed" quorumlock_lock_group="report"`])
		require.Equal(t, "0", lines[`quorumlock_lease_end="unconfirmed" quorumlock_lock_group="export"`])
		require.NotContains(t, []string{"", "0"}, lines[`quorumlock_node_had_marker="false" quorumlock_node_name="node-5"`])
		require.Equal(t, "0", lines[`quorumlock_node_had_marker="false" quorumlock_node_name="node-1"`])
		require.Equal(t, "1", lines[`quorumlock_node_name="node-5"`], "node-5 is in use again")
		require.Contains(t, out.String(), "The longest span: quorumlock acquire")
		require.Contains(t, out.String(), "quorumlock.vote node.name=")
	})
}

func TestMetricsAreServed(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := start(ctx, "localhost:0", w)
		_ = w.CloseWithError(err)
		ended <- err
	}()
	url := make([]byte, 200)
	n, err := r.Read(url)
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, r) }()
	response, err := http.Get(strings.TrimSpace(string(url[:n])))
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Contains(t, string(body), "target_info")
	stop()
	require.NoError(t, <-ended)
	http.DefaultClient.CloseIdleConnections()
}

func TestInvalidAddressIsAnError(t *testing.T) {
	require.Error(t, start(t.Context(), "nowhere:-1", io.Discard))
}
