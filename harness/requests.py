"""How many requests of each kind a cluster has answered since it was started, by the brokers' own count."""

from __future__ import annotations

import re
from collections import Counter

from harness.cluster import KafkaCluster
from harness.tools import JMX, run_tool

_BEANS = "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=*,version=*"
_FIGURE = re.compile(r'request=(\w+),.*:Count"?[=,]"?(\d+)')


def requests(cluster: KafkaCluster) -> Counter[str]:
    """Requests by API, such as `Metadata`, of all nodes; the cluster must have been made with `jmx=True`.

    Starts a JVM for each node: a second or two. Raises HarnessError.
    """
    counted: Counter[str] = Counter()
    for broker in cluster.brokers.values():
        url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{broker.ports.jmx}/jmxrmi"
        arguments = ["--jmx-url", url, "--object-name", _BEANS, "--attributes", "Count", "--one-time"]
        for line in run_tool(JMX, [*arguments, "--report-format", "properties"]).splitlines():
            figure = _FIGURE.search(line)
            if figure is not None:
                counted[figure[1]] += int(figure[2])
    return counted
