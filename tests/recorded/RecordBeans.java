import java.util.Arrays;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Prints the MBeans of Connect and of MirrorMaker 2 in a JVM, at the JMX port given, with their attributes. */
public class RecordBeans {
    /** Of clients, and what is the same for all. */
    private static final Set<String> LEFT_OUT = Set.of(
        "app-info", "connect-metrics", "connect-node-metrics", "connect-coordinator-metrics", "kafka-metrics-count");

    public static void main(String[] args) throws Exception {
        var url = new JMXServiceURL("service:jmx:rmi:///jndi/rmi://127.0.0.1:" + args[0] + "/jmxrmi");
        try (var connector = JMXConnectorFactory.connect(url)) {
            MBeanServerConnection beans = connector.getMBeanServerConnection();
            for (ObjectName name : new TreeSet<>(beans.queryNames(new ObjectName("kafka.*:*"), null))) {
                String attributes = Arrays.stream(beans.getMBeanInfo(name).getAttributes())
                    .map(MBeanAttributeInfo::getName).sorted().collect(Collectors.joining(" "));
                var type = String.valueOf(name.getKeyProperty("type"));
                if (!name.getDomain().startsWith("kafka.connect") || LEFT_OUT.contains(type)) {
                    continue;
                }
                System.out.println(name + "\t" + attributes);
            }
        }
    }
}
