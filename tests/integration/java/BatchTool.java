// Writes, reads and validates record batches with Kafka's own classes, one request a line on stdin, one answer a line.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;

public class BatchTool {
    static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] words = line.split(" ", -1);
            String answer;
            try {
                answer = switch (words[0]) {
                    case "write" -> write(words);
                    case "read" -> read(words[1]);
                    case "validate" -> validate(words[1]);
                    default -> throw new IllegalArgumentException(line);
                };
            } catch (Exception error) {
                answer = "error " + error;
            }
            System.out.println(answer.replace('\n', ' '));
        }
    }

    // write MAGIC CODEC BASE_OFFSET APPEND_TIME|- then records as OFFSET;TIMESTAMP;KEY;VALUE;NAME=VALUE,...
    static String write(String[] words) {
        boolean byBroker = !words[4].equals("-");
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(1 << 20),
            Byte.parseByte(words[1]),
            Compression.of(words[2]).build(),
            byBroker ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
            Long.parseLong(words[3]),
            byBroker ? Long.parseLong(words[4]) : RecordBatch.NO_TIMESTAMP);
        for (String word : Arrays.asList(words).subList(5, words.length)) {
            String[] fields = word.split(";", -1);
            List<Header> headers = new ArrayList<>();
            for (String pair : fields[4].isEmpty() ? new String[0] : fields[4].split(",")) {
                String[] sides = pair.split("=", -1);
                headers.add(new RecordHeader(new String(bytes(sides[0])), bytes(sides[1])));
            }
            builder.appendWithOffset(
                Long.parseLong(fields[0]), Long.parseLong(fields[1]), bytes(fields[2]), bytes(fields[3]),
                headers.toArray(new Header[0]));
        }
        return hex(builder.build().buffer());
    }

    static String read(String batches) {
        StringBuilder answer = new StringBuilder();
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(batches))).batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                record.ensureValid();
                List<String> headers = new ArrayList<>();
                for (Header header : record.headers()) {
                    headers.add(HEX.formatHex(header.key().getBytes()) + "=" + hex(header.value()));
                }
                answer.append(String.join(";",
                    Long.toString(record.offset()), Long.toString(record.timestamp()),
                    hex(record.key()), hex(record.value()), String.join(",", headers))).append(' ');
            }
        }
        return answer.toString().trim();
    }

    // What a broker does with a batch from a producer, once for a topic that keeps its codec and once for one that does not.
    static String validate(String batch) {
        for (CompressionType target : new CompressionType[] {null, CompressionType.NONE}) {
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(batch)));
            RecordBatch first = records.batches().iterator().next();
            first.ensureValid();
            CompressionType source = first.compressionType();
            LogValidator.ValidationResult result = new LogValidator(
                records, new TopicPartition("remote", 0), Time.SYSTEM, source,
                Compression.of(target == null ? source : target).build(), false, RecordBatch.MAGIC_VALUE_V2,
                TimestampType.CREATE_TIME, Long.MAX_VALUE, Long.MAX_VALUE, 0, AppendOrigin.CLIENT
            ).validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(0), NOTHING, BufferSupplier.NO_CACHING);
            if (target == null && result.messageSizeMaybeChanged()) {
                return "rewritten";
            }
        }
        return "accepted";
    }

    static byte[] bytes(String word) {
        return word.equals("null") ? null : HEX.parseHex(word);
    }

    static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return "null";
        }
        byte[] content = new byte[buffer.remaining()];
        buffer.duplicate().get(content);
        return HEX.formatHex(content);
    }

    static String hex(byte[] content) {
        return content == null ? "null" : HEX.formatHex(content);
    }

    static final LogValidator.MetricsRecorder NOTHING = new LogValidator.MetricsRecorder() {
        public void recordInvalidMagic() { }

        public void recordInvalidOffset() { }

        public void recordInvalidSequence() { }

        public void recordInvalidChecksums() { }

        public void recordNoKeyCompactedTopic() { }
    };
}
