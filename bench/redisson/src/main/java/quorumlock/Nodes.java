package quorumlock;

import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.redisson.Redisson;
import org.redisson.RedissonMultiLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** One Redisson client for each node, each with its own id. */
final class Nodes implements AutoCloseable {
    // The clients of a process share threads; all other settings are Redisson's defaults.
    private static final int THREADS = 8;
    private static final EventLoopGroup LOOPS = new MultiThreadIoEventLoopGroup(THREADS, NioIoHandler.newFactory());
    private static final ExecutorService EXECUTOR = Executors.newFixedThreadPool(THREADS, Nodes::daemon);

    private final List<RedissonClient> clients;

    /** Connects to all nodes. The watchdog's timeout is the TTL of locks without a lease. */
    Nodes(List<String> addresses, long watchdogMillis) {
        clients = addresses.stream().map(address -> connect(address, watchdogMillis)).toList();
    }

    private static RedissonClient connect(String address, long watchdogMillis) {
        Config config = new Config();
        config.setEventLoopGroup(LOOPS)
                .setExecutor(EXECUTOR)
                .setNettyExecutor(EXECUTOR)
                .setCodec(StringCodec.INSTANCE)
                .setLockWatchdogTimeout(watchdogMillis)
                .useSingleServer()
                .setAddress("redis://" + address);
        return Redisson.create(config);
    }

    /** Returns the lock of one node. */
    RLock one(int node, String name) {
        return clients.get(node).getLock(name);
    }

    /** Returns the multi lock of all nodes: it needs all of them. */
    RLock multi(String name) {
        return new RedissonMultiLock(all(name));
    }

    /** Returns the RedLock of all nodes: it needs a majority. */
    @SuppressWarnings("deprecation") // deprecated, but in use
    RLock red(String name) {
        return new org.redisson.RedissonRedLock(all(name));
    }

    private RLock[] all(String name) {
        return clients.stream().map(client -> client.getLock(name)).toArray(RLock[]::new);
    }

    /** Closes the clients, but does not wait for them: a client does not end while its node hangs. */
    @Override
    public void close() {
        clients.forEach(client -> daemon(client::shutdown).start());
    }

    private static Thread daemon(Runnable task) {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    }
}
