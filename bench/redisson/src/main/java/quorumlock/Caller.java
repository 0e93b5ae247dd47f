package quorumlock;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** One thread that runs its tasks in order. */
final class Caller {
    private final ExecutorService tasks;
    private volatile Thread thread;

    Caller(String name) {
        tasks = Executors.newSingleThreadExecutor(task -> {
            thread = new Thread(task, "caller " + name);
            thread.setDaemon(true);
            return thread;
        });
    }

    void perform(Runnable task) {
        tasks.execute(task);
    }

    /** Interrupts the current wait. */
    void interrupt() {
        thread.interrupt();
    }
}
