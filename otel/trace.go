package quorumotel

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/measure"
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

func failed(kind string) attribute.KeyValue { return semconv.ErrorTypeKey.String(kind) }

const (
	spanName  = "quorumlock acquire"
	eventName = "quorumlock.vote"
)

// spans makes a span of each acquisition, with an event for each vote. Votes of stragglers have times after its end.
type spans struct{ tracer trace.Tracer }

func (s spans) acquisition(e quorumlock.AcquisitionEvent) {
	_, span := s.tracer.Start(e.Context, spanName, trace.WithTimestamp(e.Began), trace.WithAttributes(
		keyNames.StringSlice(readable(e.Names)),
		keyReads.Bool(e.Reads),
	))
	defer span.End(trace.WithTimestamp(e.Began.Add(e.Took)))
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(keyAttempts.Int(e.Attempts), keyAsking.Float64(e.Asking.Seconds()))
	for _, v := range e.Votes {
		span.AddEvent(eventName, trace.WithTimestamp(v.At), trace.WithAttributes(vote(v)...))
	}
	if e.Err == nil {
		span.SetAttributes(keyOwner.String(e.Owner), keyToken.Int64(int64(e.Token)), keyHandedOver.Bool(e.HandedOver))
		return
	}
	kind := measure.FailureOf(e.Err)
	span.SetAttributes(failed(kind))
	if kind != "held" { // "held" is an answer and no error
		span.SetStatus(codes.Error, e.Err.Error())
	}
}

// readable returns names as valid UTF-8. Names may be any bytes, and an exporter can reject a whole batch for one.
func readable(names []string) []string {
	valid := make([]string, len(names))
	for i, name := range names {
		valid[i] = strings.ToValidUTF8(name, "\uFFFD")
	}
	return valid
}

func vote(v quorumlock.VoteEvent) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		keyNode.String(v.Node),
		keyOwner.String(v.Owner),
		keyVote.String(string(v.Vote)),
		keyTook.Float64(v.Took.Seconds()),
		keyUnsent.Bool(v.Unsent),
	}
	if v.Vote == quorumlock.VoteUnknown {
		attrs = append(attrs, failed(measure.ReasonOf(v.Err)))
	}
	return attrs
}
