package quorumlock;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/** A worker of the benchmarks. It uses the same protocol with their runner as the workers in Go. */
final class Worker {
    record Cell(String peer, String load, int callers, long durationNs, long settleNs, long ttlNs) {
        boolean contended() {
            return !load.equals("cycle");
        }
    }

    record Job(Cell cell, int first, int callers, boolean holder, List<String> addresses, String witnessFile) {}

    record Ready(long goroutines) {}

    record Closed(long goroutines) {}

    private final Lines lines;

    Worker(Lines lines) {
        this.lines = lines;
    }

    void run() throws IOException, InterruptedException {
        Job job = lines.read(Job.class);
        int before = threads();
        Nodes nodes = new Nodes(job.addresses(), TimeUnit.NANOSECONDS.toMillis(job.cell().ttlNs()));
        warmUp(job, nodes);
        RLock held = null;
        if (job.holder()) {
            held = lock(job, nodes, name(0));
            held.lockInterruptibly();
        }
        lines.write(new Ready(threads()));
        if (!lines.await()) {
            return;
        }
        Load load = new Load(job, new Witness(job.witnessFile()), locks(job, nodes));
        lines.write(held == null ? load.run() : load.runWhile(held));
        if (!lines.await()) {
            return;
        }
        nodes.close();
        lines.write(new Closed(Math.min(threads(), before)));
    }

    /**
     * Runs the same code for some time with other locks, until it is compiled, which makes it several times faster. Go
     * code is compiled from the start.
     */
    private static void warmUp(Job job, Nodes nodes) throws InterruptedException {
        final int callers = Math.max(1, Math.min(job.callers(), 16));
        final long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(3);
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < callers; i++) {
            RLock lock = lock(job, nodes, "bench:prepare:" + (job.first() + i));
            Thread thread = new Thread(() -> {
                while (System.nanoTime() < end) {
                    lock.lock();
                    lock.unlock();
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static List<RLock> locks(Job job, Nodes nodes) {
        List<RLock> locks = new ArrayList<>();
        for (int i = 0; i < job.callers(); i++) {
            locks.add(lock(job, nodes, name(job.cell().contended() ? 0 : job.first() + i)));
        }
        return locks;
    }

    private static String name(int slot) {
        return "bench:" + slot;
    }

    private static RLock lock(Job job, Nodes nodes, String name) {
        return switch (job.cell().peer()) {
            case "redisson-multilock" -> nodes.multi(name);
            case "redisson-redlock" -> nodes.red(name);
            default -> throw new IllegalArgumentException("no such peer: " + job.cell().peer());
        };
    }

    static int threads() {
        return ManagementFactory.getThreadMXBean().getThreadCount();
    }
}
