package quorumlock;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Base64;
import java.util.concurrent.TimeUnit;
import org.HdrHistogram.ConcurrentHistogram;

/** A histogram of times, like cell.Histogram of the benchmarks in Go. */
final class Latencies {
    private static final long UNIT = 100; // nanoseconds
    private static final long LONGEST = TimeUnit.MINUTES.toNanos(5) / UNIT;
    private static final int DIGITS = 3;

    private final ConcurrentHistogram histogram = new ConcurrentHistogram(1, LONGEST, DIGITS);

    void record(long nanos) {
        histogram.recordValue(Math.min(nanos / UNIT, LONGEST));
    }

    /** Returns the encoded histogram, in the common text format that the Go library also writes. */
    byte[] encode() {
        ByteBuffer buffer = ByteBuffer.allocate(histogram.getNeededByteBufferCapacity());
        int length = histogram.encodeIntoCompressedByteBuffer(buffer);
        return Base64.getEncoder().encode(Arrays.copyOf(buffer.array(), length));
    }
}
