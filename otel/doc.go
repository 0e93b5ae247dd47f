// Package quorumotel reports the work of quorumlock clients to OpenTelemetry: metrics, and a span for every acquiring
// call, with an event for each of its last 128 votes. It provides [quorumlock.Hooks]:
//
//	hooks, err := quorumotel.NewHooks()
//	...
//	client, err := quorumlock.New(quorumlock.Config{Addresses: addresses, Hooks: hooks})
//
// [quorumlock.MultiHooks] combines them with hooks of your own. The hooks may serve several clients.
//
// # Names
//
// Names and units follow the semantic conventions of OpenTelemetry. The names of locks are no attribute of metrics,
// because their number is unbounded; [WithLockGroup] assigns them to groups. Spans do have them.
// docs/observability.md lists every metric with its attributes. grafana/ and alerts.yaml have
// a dashboard and alert rules for Prometheus.
//
// # Costs
//
// Hooks run on a goroutine of their own: no lease and no node waits for a metric. A span is made when its acquisition
// is over and all votes are in, with the original times. So it cannot be the parent of another span.
package quorumotel
