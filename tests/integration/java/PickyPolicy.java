import java.util.Map;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/**
 * What a managed cluster may have: `segment.ms` is refused by name, `retention.bytes` without being named, and topics
 * whose name begins with `private` altogether.
 */
public class PickyPolicy implements CreateTopicPolicy {
    @Override public void validate(RequestMetadata request) {
        if (request.configs().containsKey("segment.ms"))
            throw new PolicyViolationException("Topic config 'segment.ms' is not allowed here.");
        if (request.configs().containsKey("retention.bytes"))
            throw new PolicyViolationException("Not allowed, see the rules of this cluster.");
        if (request.topic().startsWith("north.private"))
            throw new PolicyViolationException("Names of private topics are not allowed.");
    }

    @Override public void configure(Map<String, ?> configs) { }

    @Override public void close() { }
}
