import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.*;
import java.util.*;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.*;

/**
 * Feeds Kafka's OffsetSyncStore with offset syncs and asks it to translate, and Kafka's OffsetSyncWriter which records
 * it would sync. Prints one JSON object a line.
 */
public class RecordTranslations {
    static final ObjectMapper JSON = new ObjectMapper();
    static final TopicPartition PARTITION = new TopicPartition("orders", 3);

    public static void main(String[] arguments) throws Exception {
        for (int seed = 0; seed < 48; seed++) {
            Random random = new Random(seed);
            List<long[]> syncs = syncs(random, seed);
            boolean latestOnly = seed % 6 == 5;
            int before = seed % 4 == 3 || latestOnly ? random.nextInt(syncs.size() + 1) : syncs.size();
            store(syncs, before, latestOnly, random);
        }
        for (int seed = 0; seed < 12; seed++) rule(new Random(seed), new long[] {0, 1, 5, 100}[seed % 4]);
    }

    /** Steps of one size, of many sizes, near the largest offset, with repeats, with rewinds. */
    static List<long[]> syncs(Random random, int seed) {
        List<long[]> syncs = new ArrayList<>();
        int kind = seed % 5, count = 1 + random.nextInt(seed < 24 ? 30 : 160);
        long step = 1 + random.nextInt(200), up = kind == 2 ? Long.MAX_VALUE - 400_000 : random.nextInt(50), down = 7;
        for (int i = 0; i < count && up >= 0; i++) {
            syncs.add(new long[] {up, down});
            long width = kind == 0 ? step : 1L + random.nextInt(1 << random.nextInt(12));
            if (kind == 3 && random.nextInt(4) == 0) width = 0;
            if (kind == 4 && random.nextInt(30) == 0) up = Math.max(0, up - 500);
            up += width;
            down += Math.max(1, width - random.nextInt(3));
        }
        return syncs;
    }

    static void store(List<long[]> syncs, int before, boolean latestOnly, Random random) throws Exception {
        Constructor<OffsetSyncStore> made = OffsetSyncStore.class.getDeclaredConstructor();
        made.setAccessible(true);
        OffsetSyncStore store = made.newInstance();
        set(store, "initializationMustReadToEnd", latestOnly);
        Method handle = OffsetSyncStore.class.getDeclaredMethod("handleRecord", ConsumerRecord.class);
        handle.setAccessible(true);
        for (int i = 0; i < syncs.size(); i++) {
            if (i == before) set(store, "readToEnd", true);
            OffsetSync sync = new OffsetSync(PARTITION, syncs.get(i)[0], syncs.get(i)[1]);
            handle.invoke(store, new ConsumerRecord<>("syncs", 0, i, part(sync, "recordKey"), part(sync, "recordValue")));
        }
        OptionalLong early = before == 0 ? OptionalLong.empty() : null;
        if (before == syncs.size()) {
            early = store.translateDownstream("g", PARTITION, syncs.get(0)[0]);
            set(store, "readToEnd", true);
        }
        List<Long> asked = new ArrayList<>(), answers = new ArrayList<>(), kept = new ArrayList<>();
        long oldest = syncs.stream().mapToLong(sync -> sync[0]).min().getAsLong();
        long newest = syncs.stream().mapToLong(sync -> sync[0]).max().getAsLong();
        for (int i = 0; i < 40; i++) asked.add(oldest + (long) (random.nextDouble() * (newest - oldest)));
        for (long[] sync : syncs.subList(Math.max(0, syncs.size() - 20), syncs.size()))
            asked.addAll(List.of(Math.max(0, sync[0] - 1), sync[0], sync[0] == Long.MAX_VALUE ? sync[0] : sync[0] + 1));
        for (long offset : asked) answers.add(store.translateDownstream("g", PARTITION, offset).getAsLong());
        Method slot = OffsetSyncStore.class.getDeclaredMethod("syncFor", TopicPartition.class, int.class);
        slot.setAccessible(true);
        Object last = null;
        for (int i = 0; i < 64; i++) {
            OffsetSync sync = (OffsetSync) slot.invoke(store, PARTITION, i);
            if (sync != last) kept.add(sync.upstreamOffset());
            last = sync;
        }
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("kind", "store");
        row.put("latest_only", latestOnly);
        row.put("before_ready", before);
        row.put("answered_early", early != null && early.isPresent());
        row.put("syncs", syncs);
        row.put("kept", kept);
        row.put("asked", asked);
        row.put("answers", answers);
        System.out.println(JSON.writeValueAsString(row));
    }

    /** Records without holes in the source; both sides go back now and then, and the target leaps. */
    static void rule(Random random, long lag) throws Exception {
        Class<?> kind = Class.forName("org.apache.kafka.connect.mirror.OffsetSyncWriter$PartitionState");
        Constructor<?> made = kind.getDeclaredConstructor(long.class);
        made.setAccessible(true);
        Object state = made.newInstance(lag);
        Method update = kind.getDeclaredMethod("update", long.class, long.class), reset = kind.getDeclaredMethod("reset");
        update.setAccessible(true);
        reset.setAccessible(true);
        List<long[]> records = new ArrayList<>(), synced = new ArrayList<>();
        long up = random.nextInt(10), down = random.nextInt(10);
        for (int i = 0; i < 250; i++) {
            if (random.nextInt(100) == 0) up = Math.max(0, up - random.nextInt(50));
            if (random.nextInt(60) == 0) down += random.nextInt(20);
            if (random.nextInt(100) == 0 && down > 60) down -= 2 + random.nextInt(50);
            long[] record = {up++, down++};
            records.add(record);
            if ((boolean) update.invoke(state, record[0], record[1])) {
                synced.add(record);
                reset.invoke(state);
            }
        }
        System.out.println(JSON.writeValueAsString(
            new TreeMap<>(Map.of("kind", "rule", "offset_lag_max", lag, "records", records, "synced", synced))));
    }

    static byte[] part(OffsetSync sync, String name) throws Exception {
        Method method = OffsetSync.class.getDeclaredMethod(name);
        method.setAccessible(true);
        return (byte[]) method.invoke(sync);
    }

    static void set(OffsetSyncStore store, String name, boolean value) throws Exception {
        Field field = OffsetSyncStore.class.getDeclaredField(name);
        field.setAccessible(true);
        field.setBoolean(store, value);
    }
}
