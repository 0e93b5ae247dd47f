package quorumotel

import (
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
)

// Attributes of spans. Failures also have error.type.
const (
	keyNames      = attribute.Key("quorumlock.lock.names")
	keyReads      = attribute.Key("quorumlock.lock.reads")
	keyOwner      = attribute.Key("quorumlock.lease.owner")
	keyToken      = attribute.Key("quorumlock.lease.token")
	keyHandedOver = attribute.Key("quorumlock.lease.handed_over")
	keyAttempts   = attribute.Key("quorumlock.acquire.attempts")
	keyAsking     = attribute.Key("quorumlock.acquire.asking")
	keyNode       = attribute.Key("quorumlock.node.name")
	keyVote       = attribute.Key("quorumlock.vote")
	keyUnsent     = attribute.Key("quorumlock.vote.unsent")
	keyTook       = attribute.Key("quorumlock.vote.duration")
)

// failed returns the attribute of a failure.
func failed(kind string) attribute.KeyValue { return semconv.ErrorTypeKey.String(kind) }
