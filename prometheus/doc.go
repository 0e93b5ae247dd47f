// Package quorumprom reports the work of quorumlock clients to Prometheus, without OpenTelemetry. It provides
// [quorumlock.Hooks]:
//
//	hooks, err := quorumprom.NewHooks(prometheus.DefaultRegisterer)
//	...
//	client, err := quorumlock.New(quorumlock.Config{Addresses: addresses, Hooks: hooks})
//
// [quorumlock.MultiHooks] combines them with hooks of your own. The hooks may serve several clients, whose metrics are
// then combined.
//
// The metrics have the names and labels that the exporter of OpenTelemetry gives the metrics of the module otel. So
// the dashboard and the alert rules in otel/ work with both. docs/observability.md lists every metric with its labels,
// and says when to worry. The names of locks are no label, because their number is unbounded; [WithLockGroup] assigns
// them to groups.
package quorumprom
