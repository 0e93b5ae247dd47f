package quorumotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/quorumlock/quorumlock/measure"
)

// recorder has, for each instrument, the function that records a value.
type recorder map[*measure.Instrument]func(ctx context.Context, value float64, attrs metric.MeasurementOption)

func newRecorder(meter metric.Meter) (recorder, error) {
	r := make(recorder)
	var errs []error
	for _, i := range measure.Instruments {
		record, err := newInstrument(meter, i)
		r[i], errs = record, append(errs, err)
	}
	return r, errors.Join(errs...)
}

// newInstrument makes an instrument, and returns the function that records a value.
func newInstrument(meter metric.Meter, i *measure.Instrument) (func(context.Context, float64, metric.MeasurementOption), error) {
	unit, text := metric.WithUnit(i.Unit), metric.WithDescription(i.Text)
	switch i.Kind {
	case measure.Seconds:
		h, err := meter.Float64Histogram(i.Name, unit, text, metric.WithExplicitBucketBoundaries(i.Bounds...))
		return func(ctx context.Context, v float64, o metric.MeasurementOption) { h.Record(ctx, v, o) }, err
	case measure.Counter:
		c, err := meter.Int64Counter(i.Name, unit, text)
		return func(ctx context.Context, v float64, o metric.MeasurementOption) { c.Add(ctx, int64(v), o) }, err
	case measure.Level:
		c, err := meter.Int64UpDownCounter(i.Name, unit, text)
		return func(ctx context.Context, v float64, o metric.MeasurementOption) { c.Add(ctx, int64(v), o) }, err
	default:
		g, err := meter.Int64Gauge(i.Name, unit, text)
		return func(ctx context.Context, v float64, o metric.MeasurementOption) { g.Record(ctx, int64(v), o) }, err
	}
}

// Record implements measure.Recorder.
func (r recorder) Record(ctx context.Context, i *measure.Instrument, value float64, labels ...measure.Label) {
	attrs := make([]attribute.KeyValue, len(labels))
	for n, l := range labels {
		attrs[n] = attributeOf(l)
	}
	r[i](ctx, value, metric.WithAttributes(attrs...))
}

func attributeOf(l measure.Label) attribute.KeyValue {
	switch v := l.Value.(type) {
	case bool:
		return attribute.Bool(l.Key, v)
	case int:
		return attribute.Int(l.Key, v)
	default:
		return attribute.String(l.Key, v.(string)) //nolint:forcetypeassert // by the contract of Label
	}
}
