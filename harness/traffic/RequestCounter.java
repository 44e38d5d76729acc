import java.io.Writer;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.MBeanServerDelegate;
import javax.management.MBeanServerNotification;
import javax.management.Notification;
import javax.management.ObjectName;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;

/**
 * Runs in a broker, and writes twice a second how many requests of each kind it has answered since the last line and
 * how many bytes of records it took from clients and gave them: "end-ms length-ms Bytes=17 Metadata=2 Produce=1".
 * A broker tells Fetch of clients (FetchConsumer) from that of other brokers (FetchFollower).
 */
public final class RequestCounter implements MetricsReporter {
    private static final String FILE = "twinlog.requests.file";
    private static final long EVERY_MS = 500;
    private static final String[] BYTES = {"BytesInPerSec", "BytesOutPerSec"};
    private static boolean running;

    private final MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
    private final Map<ObjectName, Long> seen = new HashMap<>();
    // A broker has thousands of beans: looking through them twice a second costs more than all else here.
    private final Set<ObjectName> kinds = ConcurrentHashMap.newKeySet();

    @Override
    public void configure(Map<String, ?> settings) {
        synchronized (RequestCounter.class) {
            // Broker and controller of one process make a reporter each; both count in the same place.
            if (running || settings.get(FILE) == null)
                return;
            running = true;
        }
        Path file = Path.of(settings.get(FILE).toString());
        Thread thread = new Thread(() -> run(file), "request-counter");
        thread.setDaemon(true);
        thread.start();
    }

    private void run(Path file) {
        try (Writer out = Files.newBufferedWriter(
                file, StandardCharsets.US_ASCII, StandardOpenOption.CREATE, StandardOpenOption.APPEND)) {
            ObjectName[] bytes = new ObjectName[BYTES.length];
            for (int place = 0; place < BYTES.length; place++)
                bytes[place] = new ObjectName("kafka.server:type=BrokerTopicMetrics,name=" + BYTES[place]);
            beans.addNotificationListener(MBeanServerDelegate.DELEGATE_NAME, this::follow, null, null);
            for (ObjectName there : beans.queryNames(new ObjectName("kafka.network:type=RequestMetrics,*"), null))
                note(there);
            long last = System.nanoTime();
            while (true) {
                Thread.sleep(EVERY_MS);
                Map<String, Long> counts = new TreeMap<>();
                for (ObjectName bean : bytes)
                    add(counts, "Bytes", bean);
                for (ObjectName kind : kinds)
                    add(counts, kind.getKeyProperty("request"), kind);
                long now = System.nanoTime();
                StringBuilder line = new StringBuilder();
                line.append(System.currentTimeMillis()).append(' ').append((now - last) / 1_000_000);
                counts.forEach((name, count) -> line.append(' ').append(name).append('=').append(count));
                out.write(line.append('\n').toString());
                out.flush();
                last = now;
            }
        } catch (Exception error) {
            System.err.println("The request counter ended: " + error);
        }
    }

    /** A kind of request gets its bean with the first of them. */
    private void follow(Notification notification, Object handback) {
        if (notification.getType().equals(MBeanServerNotification.REGISTRATION_NOTIFICATION))
            note(((MBeanServerNotification) notification).getMBeanName());
    }

    private void note(ObjectName bean) {
        if (bean.getDomain().equals("kafka.network")
                && "RequestMetrics".equals(bean.getKeyProperty("type"))
                && "RequestsPerSec".equals(bean.getKeyProperty("name"))
                && !"Fetch".equals(bean.getKeyProperty("request")))
            kinds.add(bean);
    }

    private void add(Map<String, Long> counts, String name, ObjectName bean) {
        try {
            long count = (Long) beans.getAttribute(bean, "Count");
            long more = count - seen.getOrDefault(bean, 0L);
            seen.put(bean, count);
            if (more != 0)
                counts.merge(name, more, Long::sum);
        } catch (JMException gone) {
            // It has not been needed yet, or was removed with the broker's end.
        }
    }

    @Override
    public void init(List<KafkaMetric> metrics) {}

    @Override
    public void metricChange(KafkaMetric metric) {}

    @Override
    public void metricRemoval(KafkaMetric metric) {}

    @Override
    public void close() {}
}
