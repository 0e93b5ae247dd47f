package quorumlock;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/**
 * Acquires and releases locks on request. A caller is a thread, as Redisson's locks belong to threads. Each caller
 * handles its requests in order, and independently of the others.
 */
final class Server {
    /** A request. Times are in milliseconds. With a lease of -1 the lock is renewed until its release. */
    record Request(
            long id,
            String op,
            String client,
            String caller,
            String kind,
            int node,
            String name,
            long patience,
            long lease,
            List<String> addresses,
            long watchdog) {}

    /** The result of a request. The error is empty on success. */
    record Response(long id, boolean value, String error) {}

    private final Lines lines;
    private final Map<String, Nodes> clients = new ConcurrentHashMap<>();
    private final Map<String, Caller> callers = new ConcurrentHashMap<>();

    Server(Lines lines) {
        this.lines = lines;
    }

    void run() throws IOException {
        for (Request r = lines.read(Request.class); r != null; r = lines.read(Request.class)) {
            Request request = r;
            Caller caller = callers.computeIfAbsent(request.caller(), Caller::new);
            if (request.op().equals("interrupt")) {
                caller.interrupt();
                lines.write(new Response(request.id(), true, ""));
            } else {
                caller.perform(() -> answer(request));
            }
        }
    }

    private void answer(Request request) {
        Response response;
        Thread.interrupted(); // clears an interrupt of an earlier request
        try {
            response = new Response(request.id(), perform(request), "");
        } catch (Exception e) {
            response = new Response(request.id(), false, e.getClass().getSimpleName() + ": " + e.getMessage());
        }
        try {
            lines.write(response);
        } catch (IOException e) {
            System.err.println(e); // the reader has gone
        }
    }

    private boolean perform(Request r) throws InterruptedException {
        if (r.op().equals("open")) {
            return clients.put(r.client(), new Nodes(r.addresses(), r.watchdog())) == null;
        }
        if (r.op().equals("close")) {
            clients.remove(r.client()).close();
            return true;
        }
        RLock lock = lock(r);
        switch (r.op()) {
            case "lock" -> {
                if (r.lease() < 0) {
                    lock.lockInterruptibly();
                } else {
                    lock.lockInterruptibly(r.lease(), TimeUnit.MILLISECONDS);
                }
                return true;
            }
            case "tryLock" -> {
                return lock.tryLock(r.patience(), r.lease(), TimeUnit.MILLISECONDS);
            }
            case "unlock" -> {
                lock.unlock();
                return true;
            }
            case "forceUnlock" -> {
                return lock.forceUnlock();
            }
            case "isLocked" -> {
                return lock.isLocked();
            }
            case "isHeld" -> {
                return lock.isHeldByCurrentThread();
            }
            default -> throw new IllegalArgumentException("no such op: " + r.op());
        }
    }

    private RLock lock(Request r) {
        Nodes nodes = clients.get(r.client());
        return switch (r.kind()) {
            case "one" -> nodes.one(r.node(), r.name());
            case "multi" -> nodes.multi(r.name());
            case "red" -> nodes.red(r.name());
            default -> throw new IllegalArgumentException("no such kind: " + r.kind());
        };
    }
}
