import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.util.*;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.connector.policy.AllConnectorClientConfigOverridePolicy;
import org.apache.kafka.connect.runtime.AbstractHerder;
import org.apache.kafka.connect.runtime.Worker;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.runtime.rest.entities.*;
import org.apache.kafka.connect.runtime.standalone.*;
import org.apache.kafka.connect.storage.MemoryOffsetBackingStore;

/**
 * Asks a Connect worker for the keys of the mirror connectors and of converters, and to validate configurations.
 * The argument is a JSON file of configurations by name. Documentation is left out. Prints one JSON object a line.
 */
public class RecordPlugins {
    static final ObjectMapper JSON = new ObjectMapper();

    /** A worker that looks for no cluster. */
    static class Offline extends StandaloneConfig {
        Offline(Map<String, String> settings) { super(settings); }
        @Override public String kafkaClusterId() { return "none"; }
    }

    static class NoOffsets extends MemoryOffsetBackingStore {
        @Override public Set<Map<String, Object>> connectorPartitions(String connector) { return Set.of(); }
    }

    public static void main(String[] arguments) throws Exception {
        String string = "org.apache.kafka.connect.storage.StringConverter";
        Map<String, String> settings = Map.of(
            "bootstrap.servers", "nowhere:9092", "key.converter", string, "value.converter", string,
            "offset.storage.file.filename", "/dev/null", "plugin.discovery", "service_load");
        Plugins plugins = new Plugins(settings);
        plugins.compareAndSwapWithDelegatingLoader();
        var policy = new AllConnectorClientConfigOverridePolicy();
        Worker worker = new Worker("w:1", Time.SYSTEM, plugins, new Offline(settings), new NoOffsets(), policy);
        StandaloneHerder herder = new StandaloneHerder(worker, "none", policy);
        for (String plugin : List.of(
                "MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector",
                "ByteArrayConverter", "JsonConverter", "StringConverter"))
            System.out.println(JSON.writeValueAsString(row("plugin", plugin, "keys", keys(herder, plugin))));
        Map<String, Map<String, String>> cases = JSON.readValue(new File(arguments[0]), Map.class);
        for (var asked : cases.entrySet())
            System.out.println(JSON.writeValueAsString(validated(herder, asked.getKey(), asked.getValue())));
        System.out.flush();
        System.exit(0);
    }

    /** For connectors in the order of a validation, which lists the keys of source connectors with those of all. */
    static List<Object> keys(StandaloneHerder herder, String plugin) throws Exception {
        List<Object> rows = new ArrayList<>();
        if (plugin.startsWith("Mirror")) {
            var config = Map.of("name", "c", "connector.class", plugin, "source.cluster.alias", "a");
            for (Map<String, Object> found : configs(ask(herder, config))) rows.add(key(found.get("definition")));
        } else
            for (ConfigKeyInfo key : herder.connectorPluginConfig(plugin)) rows.add(key(key));
        return rows;
    }

    /** Through JSON, because the classes have other methods in other releases. */
    static List<Map<String, Object>> configs(ConfigInfos infos) throws Exception {
        return (List) JSON.readValue(JSON.writeValueAsString(infos), Map.class).get("configs");
    }

    static List<Object> key(Object key) throws Exception {
        Map<String, Object> all = JSON.readValue(JSON.writeValueAsString(key), Map.class);
        Object order = all.containsKey("order") ? all.get("order") : all.get("order_in_group");
        return Arrays.asList(
            all.get("name"), all.get("type"), all.get("required"), all.get("default_value"), all.get("importance"),
            all.get("group"), order, all.get("width"), all.get("display_name"));
    }

    static Map<String, Object> validated(StandaloneHerder herder, String name, Map<String, String> asked) throws Exception {
        ConfigInfos found = ask(herder, asked);
        Set<String> wrong = new TreeSet<>();
        if (found != null)
            for (Map<String, Object> config : configs(found)) {
                Map<String, Object> value = (Map<String, Object>) config.get("value");
                if (value != null && !((List<?>) value.get("errors")).isEmpty()) wrong.add((String) value.get("name"));
            }
        return row("case", name, "wrong", found == null ? null : wrong);
    }

    static ConfigInfos ask(StandaloneHerder herder, Map<String, String> config) throws Exception {
        CountDownLatch answered = new CountDownLatch(1);
        ConfigInfos[] answer = new ConfigInfos[1];
        herder.validateConnectorConfig(config, (error, infos) -> { answer[0] = infos; answered.countDown(); });
        answered.await();
        return answer[0];
    }

    static Map<String, Object> row(String kind, String name, String what, Object value) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("version", AppInfoParser.getVersion());
        row.put(kind, name);
        row.put(what, value);
        return row;
    }
}
