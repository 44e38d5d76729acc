import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.*;
import java.util.*;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.connect.mirror.*;

/** Asks Kafka's MirrorClient about single topic names; needs no cluster. Prints one JSON object a line. */
public class RecordClients {
    static final String[] ALIASES = {"a", "b", "east", "shop", "nobody", ""};
    static final String[] TOPICS = {
        "t", "a.t", "a.b.t", "heartbeats", "a.heartbeats", "a.b.heartbeats", "b.a.b.heartbeats", "a.a.heartbeats",
        "shop.heartbeats", "xheartbeats", "a.xheartbeats", "a_heartbeats", "b_a_heartbeats", "a.checkpoints.internal",
        "a_checkpoints_internal", "mm2-offset-syncs.b.internal", "mm2-offsets.east.internal", "__consumer_offsets",
        "a.__consumer_offsets", ".dot", "foo.internal", "east.orders.v1", "heartbeats.a"
    };

    public static void main(String[] arguments) throws Exception {
        for (String policy : List.of("default", "identity"))
            for (String separator : List.of(".", "_")) {
                DefaultReplicationPolicy asked =
                    policy.equals("default") ? new DefaultReplicationPolicy() : new IdentityReplicationPolicy();
                asked.configure(Map.of("source.cluster.alias", "east", "replication.policy.separator", separator));
                Constructor<MirrorClient> made =
                    MirrorClient.class.getDeclaredConstructor(Admin.class, ReplicationPolicy.class, Map.class);
                made.setAccessible(true);
                MirrorClient client = made.newInstance(null, asked, Map.of());
                for (String topic : TOPICS) {
                    Map<String, Object> row = new LinkedHashMap<>();
                    row.put("policy", policy);
                    row.put("separator", separator);
                    row.put("topic", topic);
                    row.put("is_heartbeats", ask(client, "isHeartbeatTopic", topic));
                    row.put("is_checkpoints", ask(client, "isCheckpointTopic", topic));
                    row.put("is_remote", ask(client, "isRemoteTopic", topic));
                    row.put("sources", new TreeSet<>((Set<?>) ask(client, "allSources", topic)));
                    Map<String, Object> hops = new LinkedHashMap<>();
                    for (String alias : ALIASES) hops.put(alias, ask(client, "countHopsForTopic", topic, alias));
                    row.put("hops", hops);
                    System.out.println(new ObjectMapper().writeValueAsString(row));
                }
            }
    }

    static Object ask(MirrorClient client, String name, String... arguments) throws Exception {
        Class<?>[] types = new Class<?>[arguments.length];
        Arrays.fill(types, String.class);
        Method method = MirrorClient.class.getDeclaredMethod(name, types);
        method.setAccessible(true);
        return method.invoke(client, (Object[]) arguments);
    }
}
