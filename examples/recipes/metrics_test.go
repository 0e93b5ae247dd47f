package recipes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/measure"
	"github.com/quorumlock/quorumlock/node"
	quorumotel "github.com/quorumlock/quorumlock/otel"
	quorumprom "github.com/quorumlock/quorumlock/prometheus"
)

// The module prometheus has the metrics of the module otel, as its exporter names them: the same names, types, labels,
// buckets and values. So the dashboard and the alert rules work with both.
func TestModulePrometheusHasTheSameMetrics(t *testing.T) {
	group := func(name string) string { g, _, _ := strings.Cut(name, "-"); return g }
	exported, own := prometheus.NewRegistry(), prometheus.NewPedanticRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(exported), exporter.WithoutScopeInfo())
	require.NoError(t, err)
	otel, err := quorumotel.NewHooks(
		quorumotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))), quorumotel.WithLockGroup(group))
	require.NoError(t, err)
	prom, err := quorumprom.NewHooks(own, quorumprom.WithLockGroup(group))
	require.NoError(t, err)
	tellAll(t, quorumlock.MultiHooks(otel, prom))

	want := series(t, exported)
	require.Equal(t, want, series(t, own))
	for _, i := range measure.Instruments {
		name := strings.ReplaceAll(i.Name, ".", "_")
		require.True(t, slices.ContainsFunc(want, func(s string) bool { return strings.Contains(s, " "+name) }), name)
	}
}

// tellAll tells an event of each kind, with and without an error.
func tellAll(t *testing.T, h quorumlock.Hooks) {
	t.Helper()
	names, silent := []string{"invoice-1"}, &node.Error{Node: "n1", Reason: node.ErrTimeout}
	few := &quorumlock.NoQuorumError{Op: "acquire", Names: names, Need: 2, Total: 3}
	lost := &quorumlock.LostError{Names: names, Cause: quorumlock.LossUnconfirmed}
	for _, err := range []error{nil, few, quorumlock.ErrHeld} {
		h.Acquisition(quorumlock.AcquisitionEvent{Context: t.Context(), Names: names, Took: 3 * time.Millisecond, Asking: time.Millisecond, Err: err})
	}
	h.Acquired(quorumlock.AcquiredEvent{Names: names, Owner: "a:1"})
	h.Acquired(quorumlock.AcquiredEvent{Names: names, Owner: "a:2", HandedOver: true})
	h.AttemptFailed(quorumlock.AttemptFailedEvent{Names: names, Err: few})
	h.Voted(quorumlock.VoteEvent{Node: "n2", Op: "acquire", Vote: quorumlock.VoteGranted, Took: time.Millisecond})
	h.Voted(quorumlock.VoteEvent{Node: "n1", Op: "renew", Vote: quorumlock.VoteUnknown, Took: time.Second, Err: silent})
	h.Renewed(quorumlock.RenewalEvent{Names: names, Owner: "a:1"})
	h.RenewalFailed(quorumlock.RenewalEvent{Names: names, Owner: "a:1", Err: few})
	h.BackingChanged(quorumlock.BackingEvent{Names: names, Owner: "a:1", Have: 2, Want: 3, Need: 2})
	h.Ended(quorumlock.EndedEvent{Names: names, Owner: "a:2", Held: time.Minute, Err: lost})
	h.LossFound(quorumlock.LossFoundEvent{Names: names, Owner: "a:1", Err: &quorumlock.LostError{Cause: quorumlock.LossGone}})
	h.Latch(quorumlock.LatchEvent{Name: names[0], Op: "count down", Took: time.Millisecond, Err: few})
	h.NodeDown("n1", silent)
	h.NodeUp("n3")
	h.NodeRecovering(quorumlock.NodeRecoveringEvent{Node: "n1", HadMarker: true})
}

// series returns the value of each series, by its type, its name, its labels that have a value, and its text.
func series(t *testing.T, from prometheus.Gatherer) (all []string) {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "target_info" {
			continue // of OpenTelemetry itself
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetValue() != "" {
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
			}
			slices.Sort(labels)
			all = append(all, fmt.Sprintf("%s %s%q: %s, %s", f.GetType(), f.GetName(), labels, f.GetHelp(), valueOf(m)))
		}
	}
	slices.Sort(all)
	return all
}

func valueOf(m *dto.Metric) string {
	h := m.GetHistogram()
	if h == nil {
		return fmt.Sprint(m.GetCounter().GetValue() + m.GetGauge().GetValue())
	}
	text := fmt.Sprintf("%d: %g", h.GetSampleCount(), h.GetSampleSum())
	for _, b := range h.GetBucket() {
		if b.GetUpperBound() < 1e300 { // one of the two lists the last bucket, which has everything
			text += fmt.Sprintf(", %g: %d", b.GetUpperBound(), b.GetCumulativeCount())
		}
	}
	return text
}
