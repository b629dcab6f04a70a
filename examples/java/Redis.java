import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.SslOptions;
import io.lettuce.core.api.sync.RedisCommands;
import java.io.File;
import java.util.ArrayList;
import java.util.List;

/** Lettuce: {@code java -cp 'jars/*' Redis.java rediss://HOST:PORT CA_FILE}. */
final class Redis {

    private static final String KEY = "example:lettuce";

    public static void main(String[] arguments) {
        SslOptions trust = SslOptions.builder().trustManager(new File(arguments[1])).build();
        List<String> reads = new ArrayList<>();

        RedisClient client = RedisClient.create(arguments[0]);
        client.setOptions(ClientOptions.builder().sslOptions(trust).build());
        try {
            RedisCommands<String, String> commands = client.connect().sync();
            commands.set(KEY, "Ada");
            reads.add(commands.get(KEY));
            reads.add(commands.get(KEY)); // A hit.
            commands.set(KEY, "Grace");
            reads.add(commands.get(KEY));
        } finally {
            client.shutdown();
        }

        System.out.println("read twice, then after a write: " + reads);
        System.exit(reads.equals(List.of("Ada", "Ada", "Grace")) ? 0 : 1);
    }
}
