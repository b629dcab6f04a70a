import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import java.net.InetSocketAddress;
import java.util.List;

/**
 * The MongoDB-compatible origin of the speed measurements: mongo-java-server, in memory.
 *
 * <p>Usage: {@code MongoJava [HOST:PORT]}; default: 127.0.0.1:0. When it listens, it prints
 * "listening on HOST:PORT" to standard output. It stops on SIGTERM or SIGINT.
 */
final class MongoJava {

    /**
     * The library's newest version is 5.0 (wire version 8); current drivers require at least 9.
     */
    private static final class Mongo7 implements MongoVersion {
        @Override
        public List<Integer> getVersionArray() {
            return List.of(7, 0, 0);
        }

        @Override
        public int getWireVersion() {
            return 21;
        }
    }

    public static void main(String[] arguments) {
        String listen = arguments.length > 0 ? arguments[0] : "127.0.0.1:0";
        int colon = listen.lastIndexOf(':');
        if (colon < 0) {
            System.err.println("mongo-java: expected HOST:PORT, got " + listen);
            System.exit(2);
        }
        MongoServer server = new MongoServer(new MemoryBackend().version(new Mongo7()));
        server.bind(listen.substring(0, colon), Integer.parseInt(listen.substring(colon + 1)));
        Runtime.getRuntime().addShutdownHook(new Thread(server::shutdownNow));

        InetSocketAddress address = server.getLocalAddress();
        System.out.println(
                "listening on " + address.getAddress().getHostAddress() + ":" + address.getPort());
    }
}
