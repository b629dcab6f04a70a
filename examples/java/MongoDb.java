import com.mongodb.ConnectionString;
import com.mongodb.MongoClientSettings;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.model.Filters;
import com.mongodb.client.model.UpdateOptions;
import com.mongodb.client.model.Updates;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.List;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.bson.Document;
import org.bson.conversions.Bson;

/**
 * The Java driver of MongoDB: {@code java -cp 'jars/*' MongoDb.java 'mongodb://HOST:PORT/?tls=true'
 * CA_FILE}.
 */
final class MongoDb {

    private static final Bson USER = Filters.eq("_id", "java");

    public static void main(String[] arguments) throws Exception {
        SSLContext trust = trusting(Path.of(arguments[1]));
        MongoClientSettings settings =
                MongoClientSettings.builder()
                        .applyConnectionString(new ConnectionString(arguments[0]))
                        .applyToSslSettings(ssl -> ssl.context(trust))
                        .build();
        List<String> reads = new ArrayList<>();

        try (MongoClient client = MongoClients.create(settings)) {
            MongoCollection<Document> users = client.getDatabase("shop").getCollection("users");
            write(users, "Ada");
            reads.add(read(users));
            reads.add(read(users)); // A hit.
            write(users, "Grace");
            reads.add(read(users));
        }

        System.out.println("read twice, then after a write: " + reads);
        System.exit(reads.equals(List.of("Ada", "Ada", "Grace")) ? 0 : 1);
    }

    private static void write(MongoCollection<Document> users, String name) {
        users.updateOne(USER, Updates.set("name", name), new UpdateOptions().upsert(true));
    }

    private static String read(MongoCollection<Document> users) {
        return users.find(USER).first().getString("name");
    }

    /** Java reads authorities only from a key store, so the PEM file is converted to one. */
    private static SSLContext trusting(Path file) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream pem = Files.newInputStream(file)) {
            for (Certificate one : CertificateFactory.getInstance("X.509").generateCertificates(pem)) {
                store.setCertificateEntry("authority-" + store.size(), one);
            }
        }
        TrustManagerFactory managers =
                TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        return context;
    }
}
