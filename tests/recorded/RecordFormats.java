import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.*;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.*;
import org.apache.kafka.connect.mirror.*;
import org.apache.kafka.connect.mirror.formatters.*;

/**
 * Lets Kafka's classes write and read the records MirrorMaker 2 keeps. Prints one JSON object a line: what was encoded
 * and what its console formatter prints, and what was made of records that are not as they should be.
 */
public class RecordFormats {
    static final ObjectMapper JSON = new ObjectMapper();
    static final HexFormat HEX = HexFormat.of();
    static final long[] NUMBERS = {0, 1, 100, 1042, -1, 1L << 31, 1L << 53, Long.MAX_VALUE, Long.MIN_VALUE};
    static final String[] NAMES = {"orders", "t", "", "a.b-c_d", "größe", "日本", "\uD83D\uDE00", "x".repeat(249)};

    public static void main(String[] arguments) throws Exception {
        Random random = new Random(382);
        for (int i = 0; i < 24; i++) {
            String name = NAMES[i % NAMES.length], other = NAMES[random.nextInt(NAMES.length)];
            int partition = i == 0 ? 3 : i == 1 ? Integer.MAX_VALUE : random.nextInt(1000);
            long here = NUMBERS[i % NUMBERS.length], there = NUMBERS[random.nextInt(NUMBERS.length)];
            show("offset_sync", new OffsetSync(new TopicPartition(name, partition), here, there));
            String metadata = i % 3 == 0 ? "" : other;
            show("checkpoint", new Checkpoint(other, new TopicPartition(name, partition), here, there, metadata));
            show("heartbeat", new Heartbeat(name, other, here));
        }
        OffsetSync sync = new OffsetSync(new TopicPartition("orders", 3), 100, 90);
        Checkpoint checkpoint = new Checkpoint("my-group", new TopicPartition("primary.orders", 3), 1042, 977, "note");
        Heartbeat heartbeat = new Heartbeat("primary", "backup", 1700000000000L);
        damage("offset_sync", sync);
        damage("checkpoint", checkpoint);
        damage("heartbeat", heartbeat);
    }

    static byte[] part(Object record, String name) throws Exception {
        Method method = record.getClass().getDeclaredMethod(name);
        method.setAccessible(true);
        return (byte[]) method.invoke(record);
    }

    static void show(String kind, Object record) throws Exception {
        read(kind, part(record, "recordKey"), part(record, "recordValue"));
    }

    static void damage(String kind, Object record) throws Exception {
        byte[] key = part(record, "recordKey"), value = part(record, "recordValue");
        for (int size = 0; size < key.length; size++) read(kind, Arrays.copyOf(key, size), value);
        for (int size = 0; size < value.length; size++) read(kind, key, Arrays.copyOf(value, size));
        read(kind, Arrays.copyOf(key, key.length + 3), Arrays.copyOf(value, value.length + 5));
        byte[] versioned = value.clone();
        versioned[1] = 7;
        read(kind, key, versioned);
        byte[] negative = key.clone();
        negative[0] = (byte) 0xff;
        read(kind, negative, value);
        byte[] malformed = key.clone();
        malformed[2] = (byte) 0xc0;
        read(kind, malformed, value);
        read(kind, key, null);
        read(kind, null, value);
    }

    static void read(String kind, byte[] key, byte[] value) throws Exception {
        ConsumerRecord<byte[], byte[]> stored = new ConsumerRecord<>("topic", 0, 0L, key, value);
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("kind", kind);
        row.put("key", key == null ? null : HEX.formatHex(key));
        row.put("value", value == null ? null : HEX.formatHex(value));
        List<Object> fields = null;
        String line = null;
        try {
            switch (kind) {
                case "offset_sync" -> {
                    OffsetSync found = OffsetSync.deserializeRecord(stored);
                    TopicPartition where = found.topicPartition();
                    fields = List.of(where.topic(), where.partition(), found.upstreamOffset(), found.downstreamOffset());
                }
                case "checkpoint" -> {
                    Checkpoint found = Checkpoint.deserializeRecord(stored);
                    TopicPartition where = found.topicPartition();
                    fields = List.of(found.consumerGroupId(), where.topic(), where.partition(), found.upstreamOffset(),
                        found.downstreamOffset(), found.metadata());
                }
                default -> {
                    Heartbeat found = Heartbeat.deserializeRecord(stored);
                    fields = List.of(found.sourceClusterAlias(), found.targetClusterAlias(), found.timestamp());
                }
            }
            line = formatted(kind, stored);
        } catch (RuntimeException failure) {
            row.put("error", failure.getClass().getSimpleName());
        }
        row.put("fields", fields);
        row.put("line", line);
        System.out.println(JSON.writer().with(
            com.fasterxml.jackson.core.json.JsonWriteFeature.ESCAPE_NON_ASCII).writeValueAsString(row));
    }

    static String formatted(String kind, ConsumerRecord<byte[], byte[]> stored) {
        MessageFormatter formatter = switch (kind) {
            case "offset_sync" -> new OffsetSyncFormatter();
            case "checkpoint" -> new CheckpointFormatter();
            default -> new HeartbeatFormatter();
        };
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        formatter.writeTo(stored, new PrintStream(bytes, true, StandardCharsets.UTF_8));
        return bytes.toString(StandardCharsets.UTF_8);
    }
}
