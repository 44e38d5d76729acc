import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.StringReader;
import java.lang.reflect.*;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.common.config.*;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.mirror.*;

/**
 * Asks MirrorMaker 2 which pairs of clusters run under a file, and how often the flow A->B does what.
 *
 * Prints one JSON object a line: the text; the pairs; the intervals in seconds, negative for what is off; and the keys
 * that the source and the checkpoint connector refuse.
 */
public class RecordFlows {
    static final String BASE = "clusters = A, B, C\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n"
        + "C.bootstrap.servers = c:1\nA->B.enabled = true\n";

    static final String[] MORE = {
        "",
        "emit.heartbeats.enabled = false\n",
        "emit.heartbeats.enabled = FALSE\n",
        "emit.heartbeats.enabled = false\nB->A.emit.heartbeats.enabled = true\n",
        "B->A.emit.heartbeats.enabled = false\nC->A.emit.heartbeats.enabled = False\n",
        "emit.heartbeats.enabled = false\nC->B.enabled = true\nB->C.enabled = false\n",
        "A.emit.heartbeats.enabled = false\n",
        "emit.heartbeats.enabled = false\nA->B.emit.heartbeats.enabled = true\nemit.heartbeats.interval.seconds = 7\n",
        "emit.checkpoints.interval.seconds = 11\nsync.group.offsets.interval.seconds = 12\n",
        "sync.group.offsets.enabled = true\nsync.group.offsets.interval.seconds = 12\n",
        "A->B.sync.group.offsets.enabled = true\nA->B.sync.group.offsets.interval.seconds = -1\n",
        "refresh.topics.interval.seconds = 13\nrefresh.groups.interval.seconds = 14\n"
            + "sync.topic.configs.interval.seconds = 15\nsync.topic.acls.interval.seconds = 16\n",
        "refresh.topics.enabled = false\nrefresh.groups.enabled = false\n"
            + "sync.topic.configs.enabled = false\nsync.topic.acls.enabled = false\n",
        "refresh.topics.interval.seconds = -1\nrefresh.groups.interval.seconds = -2\n"
            + "sync.topic.configs.interval.seconds = -3\nA->B.sync.topic.acls.interval.seconds = -4\n",
        "emit.checkpoints.enabled = false\n",
        "emit.offset-syncs.enabled = false\n",
        "emit.offset-syncs.enabled = false\nemit.checkpoints.enabled = false\n",
        "emit.offset-syncs.enabled = false\noffset-syncs.topic.location = target\n",
        "A->B.emit.offset-syncs.enabled = false\noffset-syncs.topic.replication.factor = 1\n",
        "B->A.emit.offset-syncs.enabled = false\noffset-syncs.topic.replication.factor = 1\n",
        "offset-syncs.topic.location = nowhere\n",
    };

    public static void main(String[] none) throws Exception {
        for (String more : MORE) {
            Properties properties = new Properties();
            properties.load(new StringReader(BASE + more));
            Map<String, String> written = new HashMap<>();
            for (String name : properties.stringPropertyNames()) written.put(name, properties.getProperty(name));
            MirrorMakerConfig config = new MirrorMakerConfig(written);
            SourceAndTarget flow = new SourceAndTarget("A", "B");
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("text", BASE + more);
            row.put("pairs", new TreeSet<>(config.clusterPairs().stream().map(SourceAndTarget::toString).toList()));
            Map<String, String> source = config.connectorBaseConfig(flow, MirrorSourceConnector.class);
            Map<String, String> checkpoint = config.connectorBaseConfig(flow, MirrorCheckpointConnector.class);
            Map<String, String> heartbeat = config.connectorBaseConfig(flow, MirrorHeartbeatConnector.class);
            row.put("source_refuses", refused(new MirrorSourceConnector(), source));
            row.put("checkpoint_refuses", refused(new MirrorCheckpointConnector(), checkpoint));
            Map<String, Long> intervals = new TreeMap<>();
            put(intervals, "MirrorSourceConfig", source, "refreshTopicsInterval", "syncTopicConfigsInterval",
                "syncTopicAclsInterval");
            put(intervals, "MirrorCheckpointConfig", checkpoint, "refreshGroupsInterval", "emitCheckpointsInterval",
                "syncGroupOffsetsInterval");
            put(intervals, "MirrorHeartbeatConfig", heartbeat, "emitHeartbeatsInterval");
            row.put("intervals", intervals);
            System.out.println(new ObjectMapper().writeValueAsString(row));
        }
    }

    static List<String> refused(Connector connector, Map<String, String> properties) {
        List<String> keys = new ArrayList<>();
        for (ConfigValue value : connector.validate(properties).configValues())
            if (!value.errorMessages().isEmpty()) keys.add(value.name());
        Collections.sort(keys);
        return keys;
    }

    /** The classes and their methods are not public; reflection reaches them. */
    static void put(Map<String, Long> intervals, String type, Map<String, String> properties, String... names)
            throws Exception {
        Constructor<?> constructor =
            Class.forName("org.apache.kafka.connect.mirror." + type).getDeclaredConstructor(Map.class);
        constructor.setAccessible(true);
        Object config;
        try {
            config = constructor.newInstance(properties);
        } catch (InvocationTargetException refused) {
            return;
        }
        for (String name : names) {
            Method method = config.getClass().getDeclaredMethod(name);
            method.setAccessible(true);
            Duration interval = (Duration) method.invoke(config);
            intervals.put(name, interval.isNegative() ? -1 : interval.toSeconds());
        }
    }
}
