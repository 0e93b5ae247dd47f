package quorumlock;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Base64;
import java.util.concurrent.TimeUnit;
import org.HdrHistogram.ConcurrentHistogram;

/** A distribution of times, as cell.Histogram of the benchmarks in Go has it. */
final class Latencies {
    private static final long UNIT = 100; // nanoseconds
    private static final long LONGEST = TimeUnit.MINUTES.toNanos(5) / UNIT;
    private static final int DIGITS = 3;

    private final ConcurrentHistogram histogram = new ConcurrentHistogram(1, LONGEST, DIGITS);

    void record(long nanos) {
        histogram.recordValue(Math.min(nanos / UNIT, LONGEST));
    }

    /** All of it, as Go's library writes it: as text, in the format that is common to all of them. */
    byte[] encode() {
        ByteBuffer buffer = ByteBuffer.allocate(histogram.getNeededByteBufferCapacity());
        int length = histogram.encodeIntoCompressedByteBuffer(buffer);
        return Base64.getEncoder().encode(Arrays.copyOf(buffer.array(), length));
    }
}
