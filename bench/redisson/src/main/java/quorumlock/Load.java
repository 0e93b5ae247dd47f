package quorumlock;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.LongStream;
import org.redisson.api.RLock;

/** Runs callers that acquire and release locks in a loop, like worker.load in Go. */
final class Load {
    /** The measurements: worker.Outcome without the fields that Java cannot provide. Histograms are encoded. */
    record Outcome(
            double seconds,
            long ops,
            long allOps,
            long failures,
            String firstFailure,
            long unfinished,
            long violations,
            long switches,
            long[] grants,
            byte[] acquire,
            byte[] release,
            byte[] delay,
            double cpu,
            long goroutines) {}

    /** How long callers may take to return after the end, in milliseconds. */
    private static final long GRACE = 10_000;
    /** By how much other workers may end later, in milliseconds. */
    private static final long LATENESS = 300;

    private final Worker.Job job;
    private final Witness witness;
    private final List<RLock> locks;

    private final Latencies acquire = new Latencies();
    private final Latencies release = new Latencies();
    private final Latencies delay = new Latencies();
    private final AtomicLong ops = new AtomicLong();
    private final AtomicLong all = new AtomicLong();
    private final AtomicLong failures = new AtomicLong();
    private final AtomicLong violations = new AtomicLong();
    private final AtomicLong switches = new AtomicLong();
    private final AtomicReference<String> firstFailure = new AtomicReference<>("");
    private final AtomicLongArray grants;

    private volatile long began; // begin of the measured time; 0 before
    private volatile long over; // end of the measured time
    private volatile boolean measured;
    private volatile boolean stop;

    Load(Worker.Job job, Witness witness, List<RLock> locks) {
        this.job = job;
        this.witness = witness;
        this.locks = locks;
        grants = new AtomicLongArray(locks.size());
    }

    Outcome run() throws InterruptedException {
        return runWhile(null);
    }

    /** Runs the load while a lock is held, and releases that lock at the end. held may be null. */
    Outcome runWhile(RLock held) throws InterruptedException {
        long cpuBefore = cpu();
        List<Thread> callers = new ArrayList<>();
        for (int i = 0; i < locks.size(); i++) {
            int caller = i;
            Thread thread = new Thread(() -> run(caller));
            thread.setDaemon(true);
            callers.add(thread);
            thread.start();
        }
        TimeUnit.NANOSECONDS.sleep(job.cell().settleNs());
        began = System.nanoTime();
        measured = true;
        TimeUnit.NANOSECONDS.sleep(job.cell().durationNs());
        over = System.nanoTime();
        measured = false;
        double seconds = (System.nanoTime() - began) / 1e9;
        long count = ops.get();
        stop = true;
        // No thread is interrupted: Redisson could leave a lock behind. A waiter gets the lock when the others have
        // stopped.
        if (held != null) {
            Thread.sleep(LATENESS); // otherwise the waiters of another worker could acquire it
            held.unlock();
        }
        long unfinished = await(callers);
        return new Outcome(
                seconds, count, all.get(), failures.get(), firstFailure.get(), unfinished, violations.get(),
                switches.get(), values(grants), acquire.encode(), release.encode(), delay.encode(),
                (cpu() - cpuBefore) / 1e9, Worker.threads());
    }

    /** Waits for the callers, and returns how many have not returned. */
    private static long await(List<Thread> callers) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(GRACE);
        for (Thread caller : callers) {
            caller.join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime())));
        }
        return callers.stream().filter(Thread::isAlive).count();
    }

    private void run(int caller) {
        while (!stop) {
            try {
                long number = operate(caller);
                if (job.cell().load().equals("pass")) {
                    letPass(caller, number);
                }
            } catch (Exception e) {
                if (!stop) {
                    failed(e);
                }
            }
        }
    }

    private int slot(int caller) {
        return job.cell().contended() ? 0 : job.first() + caller;
    }

    /** Runs one operation, and returns the number of its grant. */
    private long operate(int caller) throws InterruptedException {
        RLock lock = locks.get(caller);
        long start = System.nanoTime();
        lock.lockInterruptibly();
        long acquired = System.nanoTime();
        if (job.cell().load().equals("wait") && !stop) {
            violations.incrementAndGet(); // another process holds the lock until the end
        }
        Witness.Grant grant = witness.enter(slot(caller), job.first() + caller);
        if (!grant.alone()) {
            violations.incrementAndGet();
        }
        witness.leave(slot(caller));
        long releasing = System.nanoTime();
        try {
            lock.unlock();
        } catch (Exception e) {
            failed(e);
        }
        long released = System.nanoTime();
        all.incrementAndGet();
        if (began == 0 || start < began || over != 0 && start > over) {
            return grant.number();
        }
        acquire.record(acquired - start);
        release.record(released - releasing);
        if (grant.sinceRelease() > 0 && job.cell().contended()) {
            delay.record(grant.sinceRelease());
        }
        if (measured) {
            count(caller, grant);
        }
        return grant.number();
    }

    private void count(int caller, Witness.Grant grant) {
        ops.incrementAndGet();
        grants.incrementAndGet(caller);
        if (grant.switched()) {
            switches.incrementAndGet();
        }
    }

    /** Waits until another caller has had the lock. The polling interval grows with the wait. */
    private void letPass(int caller, long number) throws InterruptedException {
        final long least = TimeUnit.MICROSECONDS.toNanos(20);
        for (long start = System.nanoTime(); !stop && witness.grantsOf(slot(caller)) == number; ) {
            TimeUnit.NANOSECONDS.sleep(Math.max(least, (System.nanoTime() - start) / 8));
        }
    }

    private void failed(Exception e) {
        failures.incrementAndGet();
        firstFailure.compareAndSet("", e.toString());
    }

    private static long[] values(AtomicLongArray array) {
        return LongStream.range(0, array.length()).map(i -> array.get((int) i)).toArray();
    }

    private static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }
}
