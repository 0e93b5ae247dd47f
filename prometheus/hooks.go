package quorumprom

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/measure"
)

// Option changes what NewHooks makes.
type Option func(*config)

type config struct{ group func(name string) string }

// WithLockGroup sets the label quorumlock_lock_group of the metrics about locks and leases. group computes it from the
// name of a lock, a semaphore or a latch; of several names, from the first in order. Each group has all the series of
// these metrics, so there should be few: "invoices" for "invoice-4711". Beyond a hundred groups, further ones count as
// "_OTHER". group must be safe for concurrent use.
func WithLockGroup(group func(name string) string) Option {
	return func(c *config) { c.group = group }
}

// NewHooks makes hooks that measure, and registers their metrics. It fails if the registerer is nil or refuses one. Call
// it once for each registerer, and share the hooks among the clients.
func NewHooks(to prometheus.Registerer, options ...Option) (quorumlock.Hooks, error) {
	if to == nil {
		return quorumlock.Hooks{}, errNoRegisterer
	}
	var cfg config
	for _, o := range options {
		o(&cfg)
	}
	r := make(recorder)
	for _, i := range measure.Instruments {
		r[i] = newVector(i)
	}
	if err := to.Register(r); err != nil {
		return quorumlock.Hooks{}, fmt.Errorf("quorumprom: %w", err)
	}
	return measure.Hooks(r, cfg.group), nil
}

var errNoRegisterer = errors.New("quorumprom: the registerer is nil; prometheus.DefaultRegisterer is the usual one")

type recorder map[*measure.Instrument]vector

type vector struct {
	prometheus.Collector
	// record adds a value to the series with these values of the labels.
	record func(value float64, labels []string)
}

func newVector(i *measure.Instrument) vector {
	labels := make([]string, len(i.Keys))
	for n, key := range i.Keys {
		labels[n] = underscored(key)
	}
	name := underscored(i.Name)
	switch i.Kind {
	case measure.Seconds:
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name + "_seconds", Help: i.Text, Buckets: i.Bounds}, labels)
		return vector{v, func(value float64, l []string) { v.WithLabelValues(l...).Observe(value) }}
	case measure.Counter:
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name + "_total", Help: i.Text}, labels)
		return vector{v, func(value float64, l []string) { v.WithLabelValues(l...).Add(value) }}
	default:
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: i.Text}, labels)
		if i.Kind == measure.Level {
			return vector{v, func(value float64, l []string) { v.WithLabelValues(l...).Add(value) }}
		}
		return vector{v, func(value float64, l []string) { v.WithLabelValues(l...).Set(value) }}
	}
}

func underscored(name string) string { return strings.ReplaceAll(name, ".", "_") }

// Describe and Collect make one collector of all metrics, which a registerer takes as a whole or not at all.
func (r recorder) Describe(to chan<- *prometheus.Desc) {
	for _, v := range r {
		v.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (r recorder) Collect(to chan<- prometheus.Metric) {
	for _, v := range r {
		v.Collect(to)
	}
}

// Record implements measure.Recorder. A label without a value is empty, which is the same as none to Prometheus.
func (r recorder) Record(_ context.Context, i *measure.Instrument, value float64, labels ...measure.Label) {
	values := make([]string, len(i.Keys))
	for _, l := range labels {
		// Prometheus panics on a value that is not valid UTF-8. Names of locks may be any bytes.
		values[slices.Index(i.Keys, l.Key)] = strings.ToValidUTF8(fmt.Sprint(l.Value), "\uFFFD")
	}
	r[i].record(value, values)
}
