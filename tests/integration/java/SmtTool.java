import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Applies Connect's own transforms. Each line is a chain with records, in JSON; the answer is what became of each record,
 * or what is wrong with the chain. Keys and values are read by the converters of the chain, as bytes without one; headers
 * that a transform added are written as SimpleHeaderConverter does, others stay bytes.
 */
public class SmtTool {
    record Stage(Transformation<SourceRecord> transform, Predicate<SourceRecord> predicate, boolean negate) {}

    static final ObjectMapper JSON = new ObjectMapper();
    static final SimpleHeaderConverter HEADERS = new SimpleHeaderConverter();

    public static void main(String[] arguments) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        JSON.getFactory().configure(com.fasterxml.jackson.core.JsonGenerator.Feature.ESCAPE_NON_ASCII, true);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    static JsonNode answer(JsonNode asked) {
        ObjectNode answer = JSON.createObjectNode();
        List<Stage> stages = new ArrayList<>();
        Converter key;
        Converter value;
        try {
            for (JsonNode stage : asked.get("stages")) stages.add(stage(stage));
            key = converter(asked.get("key"), true);
            value = converter(asked.get("value"), false);
        } catch (Throwable wrong) {
            return answer.put("error", String.valueOf(wrong.getMessage()));
        }
        ArrayNode results = answer.putArray("results");
        for (JsonNode record : asked.get("records")) {
            SourceRecord before;
            try {
                before = read(record, key, value);
            } catch (DataException unreadable) {
                results.add(JSON.createObjectNode().put("error", "unreadable: " + unreadable.getMessage()));
                continue;
            }
            try {
                results.add(written(applied(stages, before), key, value));
            } catch (Throwable failed) {
                results.add(JSON.createObjectNode().put("error", String.valueOf(failed)));
            }
        }
        return answer;
    }

    @SuppressWarnings("unchecked")
    static Stage stage(JsonNode asked) throws Exception {
        Transformation<SourceRecord> transform =
            (Transformation<SourceRecord>) Class.forName(asked.get("type").asText()).getDeclaredConstructor().newInstance();
        Map<String, String> config = config(asked.get("config"));
        check(transform.config(), config);
        transform.configure(config);
        if (!asked.hasNonNull("predicate")) return new Stage(transform, null, false);
        JsonNode condition = asked.get("predicate");
        Predicate<SourceRecord> predicate =
            (Predicate<SourceRecord>) Class.forName(condition.get("type").asText()).getDeclaredConstructor().newInstance();
        check(predicate.config(), config(condition.get("config")));
        predicate.configure(config(condition.get("config")));
        return new Stage(transform, predicate, asked.get("negate").asBoolean());
    }

    static void check(ConfigDef definition, Map<String, String> config) {
        for (ConfigValue value : definition.validate(config))
            for (String message : value.errorMessages()) throw new IllegalArgumentException(message);
    }

    static Converter converter(JsonNode asked, boolean isKey) throws Exception {
        if (asked == null || asked.isNull()) return null;
        Converter converter = (Converter) Class.forName(asked.get("type").asText()).getDeclaredConstructor().newInstance();
        converter.configure(config(asked.get("config")), isKey);
        return converter;
    }

    static Map<String, String> config(JsonNode asked) {
        Map<String, String> config = new HashMap<>();
        asked.fields().forEachRemaining(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        return config;
    }

    static SourceRecord read(JsonNode record, Converter key, Converter value) {
        String topic = record.get("topic").asText();
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode header : record.get("headers")) headers.addBytes(header.get(0).asText(), bytes(header.get(1)));
        SchemaAndValue ofKey = data(topic, bytes(record.get("key")), key, Schema.OPTIONAL_BYTES_SCHEMA);
        SchemaAndValue ofValue = data(topic, bytes(record.get("value")), value, Schema.BYTES_SCHEMA);
        return new SourceRecord(Map.of(), Map.of(), topic, record.get("partition").asInt(), ofKey.schema(), ofKey.value(),
            ofValue.schema(), ofValue.value(), record.get("timestamp").asLong(), headers);
    }

    static SchemaAndValue data(String topic, byte[] content, Converter converter, Schema plain) {
        return converter == null ? new SchemaAndValue(plain, content) : converter.toConnectData(topic, content);
    }

    static SourceRecord applied(List<Stage> stages, SourceRecord record) {
        for (Stage stage : stages) {
            if (record == null) return null;
            if (stage.predicate == null || stage.negate != stage.predicate.test(record)) record = stage.transform.apply(record);
        }
        return record;
    }

    static JsonNode written(SourceRecord record, Converter key, Converter value) {
        if (record == null) return JSON.nullNode();
        ObjectNode written = JSON.createObjectNode();
        written.put("topic", record.topic()).put("partition", record.kafkaPartition()).put("timestamp", record.timestamp());
        written.put("key", text(content(record.topic(), record.keySchema(), record.key(), key)));
        written.put("value", text(content(record.topic(), record.valueSchema(), record.value(), value)));
        ArrayNode headers = written.putArray("headers");
        for (Header header : record.headers()) {
            boolean plain = header.value() instanceof byte[];
            byte[] content = plain ? (byte[]) header.value()
                : HEADERS.fromConnectHeader(record.topic(), header.key(), header.schema(), header.value());
            headers.addArray().add(header.key()).add(text(content));
        }
        return written;
    }

    static byte[] content(String topic, Schema schema, Object data, Converter converter) {
        return converter == null ? (byte[]) data : converter.fromConnectData(topic, schema, data);
    }

    static byte[] bytes(JsonNode text) {
        return text == null || text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    static String text(byte[] content) {
        return content == null ? null : Base64.getEncoder().encodeToString(content);
    }
}
