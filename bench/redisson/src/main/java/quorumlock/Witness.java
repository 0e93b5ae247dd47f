package quorumlock;

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** Records the holders of locks in memory that all workers of a cell share, like worker.Witness of the benchmarks in Go. */
final class Witness {
    // A slot for each lock: holders, grants, the last holder counted from 1, and the start of its release.
    private static final int SLOT = 64;
    private static final int HOLDERS = 0;
    private static final int GRANTS = 8;
    private static final int LAST = 16;
    private static final int RELEASED = 24;

    private static final VarHandle LONG =
            MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

    /** The observation at a grant. sinceRelease is in nanoseconds, or 0 for the first grant. */
    record Grant(boolean alone, boolean switched, long number, long sinceRelease) {}

    private final ByteBuffer memory;

    Witness(String file) throws IOException {
        try (FileChannel channel =
                FileChannel.open(Path.of(file), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            memory = channel.map(FileChannel.MapMode.READ_WRITE, 0, channel.size());
        }
    }

    Grant enter(int lock, int caller) {
        int slot = lock * SLOT;
        boolean alone = (long) LONG.getAndAdd(memory, slot + HOLDERS, 1L) == 0;
        long number = (long) LONG.getAndAdd(memory, slot + GRANTS, 1L) + 1;
        long released = (long) LONG.getVolatile(memory, slot + RELEASED);
        long since = released == 0 ? 0 : System.nanoTime() - released; // CLOCK_MONOTONIC, on Linux
        long last = (long) LONG.getAndSet(memory, slot + LAST, caller + 1L);
        return new Grant(alone, last != 0 && last != caller + 1L, number, since);
    }

    /** The holder calls this just before the release. */
    void leave(int lock) {
        int slot = lock * SLOT;
        LONG.setVolatile(memory, slot + RELEASED, System.nanoTime());
        LONG.getAndAdd(memory, slot + HOLDERS, -1L);
    }

    long grantsOf(int lock) {
        return (long) LONG.getVolatile(memory, lock * SLOT + GRANTS);
    }
}
