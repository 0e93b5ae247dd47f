// Package quorumotel has OpenTelemetry tell what the clients of quorumlock do: metrics, and a span
// for every call that acquires, with an event for every vote. It makes [quorumlock.Hooks]:
//
//	hooks, err := quorumotel.NewHooks()
//	...
//	client, err := quorumlock.New(quorumlock.Config{Addresses: addresses, Hooks: hooks})
//
// With hooks of your own, [quorumlock.MultiHooks] puts them together. The hooks may serve several
// clients.
//
// # Names
//
// Names and units follow the semantic conventions of OpenTelemetry. The names of locks are no
// attribute of metrics, as there can be any number of them: [WithLockGroup] sorts them into groups.
// Spans do have them. docs/observability.md lists every metric with its attributes, and says
// when to worry; grafana/ and alerts.yaml have a dashboard and alert rules for Prometheus.
//
// # Costs
//
// Hooks are told from a goroutine of their own: no lease and no node waits for a metric. A span
// is made when its acquisition is over and all votes are in, with the times at which things
// happened; so it is not the parent of anything.
package quorumotel
