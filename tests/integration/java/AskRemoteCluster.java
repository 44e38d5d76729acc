// Asks a cluster about mirroring with Kafka's own client library: bootstrap, remote alias, group, pattern of groups,
// and aliases to count hops from. Prints one JSON object.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.*;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

public class AskRemoteCluster {
    static final Duration PATIENCE = Duration.ofSeconds(30);

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> cluster = Map.of("bootstrap.servers", arguments[0]);
        String remote = arguments[1];
        Map<String, Object> answers = new TreeMap<>();
        answers.put("group", shown(RemoteClusterUtils.translateOffsets(cluster, remote, arguments[2], PATIENCE)));
        Map<String, Object> groups = new TreeMap<>();
        RemoteClusterUtils.translateOffsets(cluster, remote, Pattern.compile(arguments[3]), PATIENCE)
            .forEach((group, offsets) -> groups.put(group, shown(offsets)));
        answers.put("groups", groups);
        answers.put("heartbeat_topics", new TreeSet<>(RemoteClusterUtils.heartbeatTopics(cluster)));
        answers.put("checkpoint_topics", new TreeSet<>(RemoteClusterUtils.checkpointTopics(cluster)));
        answers.put("upstream_clusters", new TreeSet<>(RemoteClusterUtils.upstreamClusters(cluster)));
        Map<String, Object> hops = new TreeMap<>();
        for (String alias : Arrays.asList(arguments).subList(4, arguments.length))
            hops.put(alias, RemoteClusterUtils.replicationHops(cluster, alias));
        answers.put("hops", hops);
        try (MirrorClient client = new MirrorClient(cluster)) {
            answers.put("remote_topics", new TreeSet<>(client.remoteTopics()));
            answers.put("remote_topics_of", new TreeSet<>(client.remoteTopics(remote)));
        }
        System.out.println(new ObjectMapper().writeValueAsString(answers));
    }

    static Map<String, Object> shown(Map<TopicPartition, OffsetAndMetadata> offsets) {
        Map<String, Object> shown = new TreeMap<>();
        offsets.forEach((where, what) -> shown.put(where.toString(), List.of(what.offset(), what.metadata())));
        return shown;
    }
}
