import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.*;
import java.util.*;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;

/**
 * Which values the definitions of clients, of the mirror connectors and of a worker take, one key and one value at a
 * time. Keys that take any text are left out, and so are those that were asked before and take the same. Prints one
 * JSON object per key a line.
 */
public class RecordValues {
    static final List<String> NUMBERS = List.of(
        "-2147483649", "-2", "-1", "0", "1", "2", "5", "6", "9", "10", "22", "1000", "2147483647", "2147483648");
    static final List<String> FRACTIONS = List.of("-0.1", "0", "0.05", "0.25", "0.26", "0.4", "0.5", "1", "1.01");
    static final List<String> SWITCHES = List.of("true", "FALSE", " true ", "yes", "");
    static final List<String> WORDS = List.of(
        "", "all", "-1", "0", "1", "ALL", "none", "None", "gzip", "GZIP", "snappy", "lz4", "zstd", "producer",
        "earliest", "latest", "EARLIEST", "by_duration:P7D", "read_committed", "READ_COMMITTED", "read_uncommitted",
        "use_all_dns_ips", "default", "resolve_canonical_bootstrap_servers_only", "rebootstrap", "REBOOTSTRAP",
        "SSL", "ssl", "sasl_ssl", "PLAINTEXT", "SASL_PLAINTEXT", "disabled", "preparing", "enabled", "ENABLED",
        "requested", "required", "REQUIRED", "poll", "interval", "connector", "POLL", "source", "target", "SOURCE",
        "request", "never", "restart", "NONE", "eager", "compatible", "sessioned", "https", "a b", "a, b", "a,,b");

    public static void main(String[] arguments) throws Exception {
        Map<String, ConfigDef> all = new LinkedHashMap<>();
        all.put("producer", ProducerConfig.configDef());
        all.put("consumer", ConsumerConfig.configDef());
        all.put("admin", AdminClientConfig.configDef());
        String mirror = "org.apache.kafka.connect.mirror.";
        for (String kind : List.of("Source", "Checkpoint", "Heartbeat")) {
            Field field = Class.forName(mirror + "Mirror" + kind + "Config").getDeclaredField("CONNECTOR_CONFIG_DEF");
            field.setAccessible(true);
            all.put(kind.toLowerCase(), (ConfigDef) field.get(null));
        }
        Class<?> crypto = Class.forName("org.apache.kafka.connect.runtime.distributed.Crypto");
        Method made = DistributedConfig.class.getDeclaredMethod("config", crypto);
        made.setAccessible(true);
        Field system = crypto.getField("SYSTEM");
        all.put("worker", (ConfigDef) made.invoke(null, system.get(null)));
        Map<String, List<String>> before = new HashMap<>();
        for (var one : all.entrySet())
            for (var key : new TreeMap<>(one.getValue().configKeys()).values()) {
                List<String> tried = switch (key.type) {
                    case INT, LONG, SHORT -> NUMBERS;
                    case DOUBLE -> FRACTIONS;
                    case BOOLEAN -> SWITCHES;
                    case STRING, LIST -> WORDS;
                    default -> List.of();
                };
                List<String> taken = new ArrayList<>();
                for (String value : tried) if (takes(key, value)) taken.add(value);
                if (taken.size() == tried.size() || taken.equals(before.put(key.name, taken))) continue;
                Map<String, Object> row = new LinkedHashMap<>();
                row.put("version", AppInfoParser.getVersion());
                row.put("of", one.getKey());
                row.put("key", key.name);
                row.put("takes", taken);
                System.out.println(new ObjectMapper().writeValueAsString(row));
            }
    }

    static boolean takes(ConfigDef.ConfigKey key, String value) {
        try {
            Object parsed = ConfigDef.parseType(key.name, value, key.type);
            if (key.validator != null) key.validator.ensureValid(key.name, parsed);
            return true;
        } catch (ConfigException refused) { return false; }
    }
}
