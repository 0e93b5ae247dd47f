package cell

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency is a distribution of times, in milliseconds.
type Latency struct {
	Count    int64
	P50, P99 float64
}

// Histogram collects times. It is safe for concurrent use.
type Histogram struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram
}

// unit is the resolution of a histogram, and longest its upper limit.
const (
	unit    = 100 * time.Nanosecond
	longest = 5 * time.Minute
	digits  = 3
)

// NewHistogram returns an empty histogram.
func NewHistogram() *Histogram { return &Histogram{h: empty()} }

func empty() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(longest/unit), digits)
}

// Record adds the time that an operation took.
func (h *Histogram) Record(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.h.RecordValue(min(int64(d/unit), int64(longest/unit))) // it is within the limits
}

// Encode returns the histogram as text, for [Summarise].
func (h *Histogram) Encode() ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
}

// Summarise merges encoded histograms. It returns nil if all are empty.
func Summarise(encoded [][]byte) (*Latency, error) {
	sum := empty()
	for _, e := range encoded {
		h, err := hdrhistogram.Decode(e)
		if err != nil {
			return nil, err
		}
		sum.Merge(h)
	}
	if sum.TotalCount() == 0 {
		return nil, nil //nolint:nilnil // nothing was measured
	}
	at := func(q float64) float64 {
		return float64(sum.ValueAtQuantile(q)) * float64(unit) / float64(time.Millisecond)
	}
	return &Latency{Count: sum.TotalCount(), P50: at(50), P99: at(99)}, nil
}
