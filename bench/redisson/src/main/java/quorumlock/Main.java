package quorumlock;

/** Acquires and releases Redisson's locks on requests in lines of JSON. It ends when its input ends. */
public final class Main {
    private Main() {}

    public static void main(String[] args) {
        int status = 0;
        try {
            new Server(new Lines(System.in, System.out)).run();
        } catch (Exception e) {
            e.printStackTrace();
            status = 1;
        }
        System.exit(status); // whatever threads are left
    }
}
