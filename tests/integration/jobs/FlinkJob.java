import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.filesystem.bucketassigners.BasePathBucketAssigner;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import sun.misc.Signal;

/**
 * A job in a MiniCluster: KafkaSource to FileSink, exactly once, a line "partition offset key" for each record.
 * Arguments: bootstrap servers, topic, group, folder of the output, folder of savepoints, pause in ms before each
 * record, and the savepoint to begin from. The job stops with a savepoint at SIGTERM; the savepoint is in its folder
 * then. The JVM ends with status 1 when the job fails.
 */
public final class FlinkJob {
    private static final int PARALLELISM = 2;

    public static void main(String[] arguments) throws Exception {
        boolean restored = arguments.length > 6;
        Map<String, String> settings = new HashMap<>();
        settings.put("execution.checkpointing.interval", "500 ms");
        settings.put("restart-strategy.type", "none");
        if (restored)
            settings.put("execution.state-recovery.path", arguments[6]);
        // With committed offsets as its begin, a restored job fails where a partition lacks the offset of the savepoint.
        // With `earliest` it would read such a partition from its first record.
        KafkaSource<String> source = KafkaSource.<String>builder()
                .setBootstrapServers(arguments[0])
                .setTopics(arguments[1])
                .setGroupId(arguments[2])
                .setStartingOffsets(restored ? OffsetsInitializer.committedOffsets() : OffsetsInitializer.earliest())
                .setProperty("isolation.level", "read_committed")
                .setProperty("max.poll.records", "50")
                .setDeserializer(new Lines())
                .build();
        FileSink<String> sink = FileSink.forRowFormat(new Path(arguments[3]), new SimpleStringEncoder<String>())
                .withBucketAssigner(new BasePathBucketAssigner<>())
                .withRollingPolicy(OnCheckpointRollingPolicy.build())
                .build();
        CountDownLatch asked = new CountDownLatch(1);
        Signal.handle(new Signal("TERM"), signal -> asked.countDown());
        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.createLocalEnvironment(PARALLELISM, Configuration.fromMap(settings));
        environment
                .fromSource(source, WatermarkStrategy.noWatermarks(), "kafka")
                .uid("kafka")
                .map(new Pause(Long.parseLong(arguments[5])))
                .uid("pause")
                .sinkTo(sink)
                .uid("files");
        JobClient job = environment.executeAsync("moved");
        CompletableFuture<JobExecutionResult> ended = job.getJobExecutionResult();
        ended.whenComplete((result, error) -> {
            if (error != null) {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        });
        asked.await();
        System.err.println(job.stopWithSavepoint(false, arguments[4], SavepointFormatType.CANONICAL).get());
        ended.get();
        System.exit(0);
    }

    private static final class Lines implements KafkaRecordDeserializationSchema<String> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<String> out) {
            String key = new String(record.key(), StandardCharsets.UTF_8);
            out.collect(record.partition() + " " + record.offset() + " " + key);
        }

        @Override
        public TypeInformation<String> getProducedType() {
            return Types.STRING;
        }
    }

    private static final class Pause implements MapFunction<String, String> {
        private final long milliseconds;

        Pause(long milliseconds) {
            this.milliseconds = milliseconds;
        }

        @Override
        public String map(String line) throws Exception {
            Thread.sleep(milliseconds);
            return line;
        }
    }
}
