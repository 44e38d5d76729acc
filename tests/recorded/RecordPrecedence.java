import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.*;
import java.lang.reflect.*;
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.connect.mirror.*;

/** Asks MirrorMaker 2 what each properties file comes to for the flow A->B. Prints one JSON object a line. */
public class RecordPrecedence {
    public static void main(String[] files) throws Exception {
        for (String file : files) {
            Properties properties = new Properties();
            try (InputStream text = new FileInputStream(file)) {
                properties.load(text);
            }
            Map<String, String> written = new HashMap<>();
            for (String name : properties.stringPropertyNames()) written.put(name, properties.getProperty(name));
            MirrorMakerConfig config = new MirrorMakerConfig(written);
            SourceAndTarget flow = new SourceAndTarget("A", "B");
            Object connector = call(config, "connectorBaseConfig", flow, MirrorSourceConnector.class);
            Constructor<?> constructor = MirrorSourceConfig.class.getDeclaredConstructor(Map.class);
            constructor.setAccessible(true);
            Object source = constructor.newInstance(connector);
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("file", Path.of(file).getFileName().toString());
            row.put("connector", sorted(connector));
            row.put("worker", sorted(call(config, "workerConfig", flow)));
            row.put("consumer", sorted(call(source, "sourceConsumerConfig", "role")));
            row.put("source_admin", sorted(call(source, "sourceAdminConfig", "role")));
            row.put("target_admin", sorted(call(source, "targetAdminConfig", "role")));
            System.out.println(new ObjectMapper().writeValueAsString(row));
        }
    }

    static Map<String, String> sorted(Object map) {
        Map<String, String> sorted = new TreeMap<>();
        ((Map<?, ?>) map).forEach((name, value) -> sorted.put(String.valueOf(name), String.valueOf(value)));
        return sorted;
    }

    /** These methods are not public; reflection reaches them. */
    static Object call(Object on, String name, Object... arguments) throws Exception {
        for (Class<?> type = on.getClass(); type != null; type = type.getSuperclass())
            for (Method method : type.getDeclaredMethods())
                if (method.getName().equals(name) && method.getParameterCount() == arguments.length) {
                    method.setAccessible(true);
                    return method.invoke(on, arguments);
                }
        throw new NoSuchMethodException(name);
    }
}
