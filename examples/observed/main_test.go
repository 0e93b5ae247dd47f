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

func TestMetricsOfTheScenario(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, start(t.Context(), "", &out))
		lines := make(map[string]string)
		for line := range strings.Lines(out.String()) {
			series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			lines[series] = value
		}
		require.Equal(t, "1", lines[`quorumlock_lease_losses_total{quorumlock_lease_end="hold_limit",quorumlock_lock_group="export"}`])
		require.Equal(t, "1", lines[`quorumlock_lease_losses_total{quorumlock_lease_end="unconfirmed",quorumlock_lock_group="report"}`])
		require.Equal(t, "0", lines[`quorumlock_lease_losses_total{quorumlock_lease_end="unconfirmed",quorumlock_lock_group="export"}`])
		require.NotContains(t, []string{"", "0"}, lines[`quorumlock_node_recoveries_total{quorumlock_node_had_marker="false",quorumlock_node_name="node-5"}`])
		require.Equal(t, "0", lines[`quorumlock_node_recoveries_total{quorumlock_node_had_marker="false",quorumlock_node_name="node-1"}`])
		require.Equal(t, "1", lines[`quorumlock_node_up{quorumlock_node_name="node-5"}`], "node-5 is in use again")
		require.Contains(t, out.String(), "The longest span: quorumlock acquire")
		require.Contains(t, out.String(), "quorumlock.lock.names = ")
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
