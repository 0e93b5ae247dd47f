package quorumlock;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** One thread, which does one thing after the other. */
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

    /** Has it give up what it waits for. */
    void interrupt() {
        thread.interrupt();
    }
}
