package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
)

// longest is a span exporter that keeps only the longest span.
type longest struct {
	mu   sync.Mutex
	span trace.ReadOnlySpan
}

// ExportSpans receives spans that have ended.
func (l *longest) ExportSpans(_ context.Context, spans []trace.ReadOnlySpan) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range spans {
		if l.span == nil || took(s) > took(l.span) {
			l.span = s
		}
	}
	return nil
}

// Shutdown has nothing to do.
func (l *longest) Shutdown(context.Context) error { return nil }

func took(s trace.ReadOnlySpan) time.Duration { return s.EndTime().Sub(s.StartTime()) }

// show prints the span and its last events.
func (l *longest) show(out io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.span == nil {
		return
	}
	fmt.Fprintf(out, "\nThe longest span: %s, %v\n", l.span.Name(), took(l.span).Round(time.Millisecond))
	for _, a := range l.span.Attributes() {
		fmt.Fprintf(out, "  %s = %s\n", a.Key, a.Value.String())
	}
	events := l.span.Events()
	fmt.Fprintf(out, "  The last of %d events:\n", len(events))
	for _, e := range events[max(0, len(events)-nodes):] {
		attrs := make([]string, 0, len(e.Attributes))
		for _, a := range e.Attributes {
			attrs = append(attrs, fmt.Sprintf("%s=%s", strings.TrimPrefix(string(a.Key), "quorumlock."), a.Value.String()))
		}
		fmt.Fprintf(out, "  %8v %s %s\n", e.Time.Sub(l.span.StartTime()).Round(time.Millisecond), e.Name, strings.Join(attrs, " "))
	}
}
