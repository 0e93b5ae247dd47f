package quorumlock;

/** Acquires and releases Redisson's locks on requests in lines of JSON. It ends when its input ends. */
public final class Main {
    private Main() {}

    public static void main(String[] args) {
        int status = 0;
        try {
            Lines lines = new Lines(System.in, System.out);
            switch (args.length == 1 ? args[0] : "") {
                case "serve" -> new Server(lines).run();
                case "bench" -> new Worker(lines).run();
                default -> throw new IllegalArgumentException("usage: serve | bench");
            }
        } catch (Exception e) {
            e.printStackTrace();
            status = 1;
        }
        System.exit(status); // whatever threads are left
    }
}
