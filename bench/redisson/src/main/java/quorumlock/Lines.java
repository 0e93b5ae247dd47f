package quorumlock;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** Reads and writes JSON objects, one per line. Any thread may write; one thread reads. */
final class Lines {
    private final ObjectMapper json =
            new ObjectMapper().disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);
    private final BufferedReader in;
    private final PrintStream out;

    Lines(InputStream in, PrintStream out) {
        this.in = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
        this.out = out;
    }

    /** Returns the next object, or null at the end. */
    <T> T read(Class<T> type) throws IOException {
        String line = in.readLine();
        return line == null ? null : json.readValue(line, type);
    }

    void write(Object value) throws IOException {
        byte[] line = (json.writeValueAsString(value) + "\n").getBytes(StandardCharsets.UTF_8);
        synchronized (out) {
            out.write(line, 0, line.length);
            out.flush();
        }
    }
}
