import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.*;
import org.apache.kafka.connect.mirror.*;

/** Asks Kafka's replication policies about many names. Prints one JSON object a line. */
public class RecordPolicies {
    static final String[] TOPICS = {
        "t", "a.t", "a.", "a..", ".x", "..x", "a.b.t", "heartbeats", "a.heartbeats", "a.b.heartbeats", "shop.heartbeats",
        "xheartbeats", "a.xheartbeats", "heartbeats.a", "a_heartbeats", "a.checkpoints.internal",
        "a_checkpoints_internal", "mm2-offset-syncs.b.internal", "mm2_x_internal", "mm2-x-internal", "foo.internal",
        "foo-internal", "__x", "__consumer_offsets", ".dot", "west.t", "east.t", "north.west.t", "west.heartbeats",
        "mm2-offsets.east.internal", "mm2.internal", "mm2internal", "a.b.checkpoints.internal", "checkpoints.internal",
        "orders.v1", "a--b--t", "--t", "a--", ".", "..", "a.mm2.internal"
    };

    public static void main(String[] arguments) throws Exception {
        for (String policy : List.of("default", "identity"))
            for (String separator : List.of(".", "_", "--", ""))
                for (boolean follows : new boolean[] {true, false}) {
                    DefaultReplicationPolicy asked =
                        policy.equals("default") ? new DefaultReplicationPolicy() : new IdentityReplicationPolicy();
                    asked.configure(Map.of(
                        "source.cluster.alias", "east",
                        "replication.policy.separator", separator,
                        "replication.policy.internal.topic.separator.enabled", String.valueOf(follows)));
                    for (String topic : TOPICS) System.out.println(row(policy, separator, follows, topic, asked));
                }
    }

    static String row(String policy, String separator, boolean follows, String topic, DefaultReplicationPolicy asked)
            throws Exception {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("policy", policy);
        row.put("separator", separator);
        row.put("internal_separator_follows", follows);
        row.put("topic", topic);
        row.put("remote_name", asked.formatRemoteTopic("east", topic));
        row.put("source_alias", asked.topicSource(topic));
        row.put("upstream_name", asked.upstreamTopic(topic));
        row.put("original_name", asked.originalTopic(topic));
        row.put("is_heartbeats", asked.isHeartbeatsTopic(topic));
        row.put("is_checkpoints", asked.isCheckpointsTopic(topic));
        row.put("is_mirror_internal", asked.isMM2InternalTopic(topic));
        row.put("is_internal", asked.isInternalTopic(topic));
        row.put("offset_syncs_topic", asked.offsetSyncsTopic("w"));
        row.put("checkpoints_topic", asked.checkpointsTopic("w"));
        return new ObjectMapper().writeValueAsString(row);
    }
}
