package quorumotel_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/quorumlock/quorumlock"
	quorumotel "github.com/quorumlock/quorumlock/otel"
)

// only returns the single span that has ended, and forgets it.
func (f *observed) only() sdktrace.ReadOnlySpan {
	f.T.Helper()
	synctest.Wait()
	spans := f.spans.Ended()
	require.Len(f.T, spans, 1)
	f.spans.Reset()
	return spans[0]
}

func TestAcquisitionIsASpanOfItsCaller(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *observed) {
		client := f.client()
		first, err := client.RedLock("first").Acquire(t.Context()) // the nodes know the client from now on
		require.NoError(t, err)
		require.NoError(t, first.Release(t.Context()))
		synctest.Wait()
		f.spans.Reset()
		f.Nodes[2].Pause()
		ctx, caller := f.tracer.Tracer("caller").Start(t.Context(), "work")
		began := f.Clock.Wall()
		lease, err := client.RedLock("job").Acquire(ctx)
		require.NoError(t, err)
		time.Sleep(time.Second) // The exchange with n3 times out.
		f.Nodes[2].Resume()

		span := f.only()
		require.Equal(t, "quorumlock acquire", span.Name())
		require.Equal(t, caller.SpanContext().SpanID(), span.Parent().SpanID())
		require.Equal(t, caller.SpanContext().TraceID(), span.SpanContext().TraceID())
		require.True(t, began.Equal(span.StartTime()), "want %v, got %v", began, span.StartTime())
		require.True(t, began.Equal(span.EndTime()), "the acquisition took no time")
		require.Equal(t, codes.Unset, span.Status().Code)
		set := attribute.NewSet(span.Attributes()...)
		require.Equal(t, "acquire.asking=0 acquire.attempts=1 lease.handed_over=false lease.owner="+lease.Owner()+
			" lease.token="+attribute.Int64Value(int64(lease.Token())).String()+
			` lock.names=["job"] lock.reads=false`, text(set))

		events := span.Events()
		require.Len(t, events, 3, "the late vote of n3 is included")
		for _, e := range events[:2] {
			require.Equal(t, "quorumlock.vote", e.Name)
			require.True(t, began.Equal(e.Time))
			require.Contains(t, e.Attributes, attribute.String("quorumlock.vote", "granted"))
		}
		late := events[2]
		require.True(t, began.Add(250*time.Millisecond).Equal(late.Time))
		require.Equal(t, "error.type=timeout lease.owner="+lease.Owner()+
			" node.name=n3 vote=unknown vote.duration=0.25 vote.unsent=false", text(attribute.NewSet(late.Attributes...)))
		caller.End()
	})
}

func TestSpanOfWaiterHasAllAttempts(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *observed) {
		held := f.acquire(f.client().RedLock("job"))
		f.only()
		time.AfterFunc(time.Second, func() { _ = held.Release(context.Background()) })
		f.acquire(f.client().RedLock("job"))
		span := f.only()
		require.GreaterOrEqual(t, span.EndTime().Sub(span.StartTime()), time.Second)
		owners := make(map[string]bool)
		for _, e := range span.Events() {
			set := attribute.NewSet(e.Attributes...)
			owner, _ := set.Value("quorumlock.lease.owner")
			owners[owner.AsString()] = true
		}
		require.Greater(t, len(owners), 1, "each attempt has its own owner")
	})
}

func TestSpanOfFailureHasItsReason(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *observed) {
		client := f.client()
		f.acquire(f.client().RedLock("job"))
		f.only()
		_, err := client.RedLock("job").TryAcquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrHeld)
		span := f.only()
		require.Equal(t, codes.Unset, span.Status().Code, "a held lock is no error")
		require.Contains(t, span.Attributes(), attribute.String("error.type", "held"))

		f.Stop(0, 1)
		_, err = client.RedLock("free").TryAcquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		span = f.only()
		require.Equal(t, codes.Error, span.Status().Code)
		require.Equal(t, err.Error(), span.Status().Description)
		require.Contains(t, span.Attributes(), attribute.String("error.type", "no_quorum"))
	})
}

// A name may be any bytes. An exporter rejects a batch of spans or metrics for one that is not valid UTF-8.
func TestNamesAreValidUTF8(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, f *observed) {
		f.release(f.acquire(f.client().RedLock("a\xff")))
		require.Contains(t, f.only().Attributes(), attribute.StringSlice("quorumlock.lock.names", []string{"a\uFFFD"}))
		require.Contains(t, fmt.Sprint(f.points("quorumlock.lease.count")), "lock.group=a\uFFFD")
	}, quorumotel.WithLockGroup(func(name string) string { return name }))
}
