"""How it was measured, in words that go with the figures."""

from __future__ import annotations

from confluent_kafka import libversion

from bench.peers.commands import MM1_HEAP, MM1_STREAMS, franz_version, go_version
from bench.systems import COMMON, MM2_HEAP, MM2_TUNING
from harness.jvm.jars import OLDER_VERSION, SPARK_VERSION

LEASE_S = 300


def notes(latency_s: int, repeat: int, brokers: int = 1) -> list[str]:
    """One sentence or two for each thing a reader must know."""
    tuning = ", ".join(f"`{key.partition('}.')[2]}={value}`" for key, value in MM2_TUNING.items())
    lease = f", so that one change of twinlog's lease ({LEASE_S} s) falls into it" if latency_s >= LEASE_S else ""
    nodes = "one broker" if brokers == 1 else f"{brokers} brokers"
    text = f"""
One machine holds all brokers and the system measured, so all share its cores. Each cluster has {nodes}, and topics as \
many replicas. Two systems never run at the same time. They copy the same topics, and the system that goes first \
changes from item to item and from round to round.

MirrorMaker 2 runs in its dedicated mode with a heap of {MM2_HEAP} and {tuning}; twinlog with its defaults. Both have \
`tasks.max={COMMON["tasks.max"]}`, and (but for `scale`) heartbeats, checkpoints, offset syncs and the copying of \
topic configs and ACLs switched off.

Peers of the copy items: MirrorMaker 1 of Kafka {OLDER_VERSION} with {MM1_STREAMS} streams, a heap of {MM1_HEAP} and \
the tuning of MirrorMaker 2; Spark's own Kafka source and sink {SPARK_VERSION} in a structured streaming query with \
the columns key, value, headers and partition; a loop on librdkafka {libversion()[0]} in Python; a loop on franz-go \
{franz_version()} in Go ({go_version() or "missing"}). The loops are idempotent, with batches of up to 1 MB and a \
linger of 5 ms, and commit offsets once a second after acknowledgements. MirrorMaker 1 and the loops read as members \
of a consumer group, which waits for `group.initial.rebalance.delay.ms` (3 s) first. Peers find their remote topic \
made; MirrorMaker 2 and twinlog make it themselves. MirrorMaker 1 keeps the topic's name, and without a message \
handler of its own no partitions.

Before the first item each system copies a small topic with keys, headers, empty values and old timestamps, which is \
compared record by record; a system is measured also if it does not keep all of them. After each copy record counts of \
all partitions and the last 100 records of each are compared in the qualities that the system keeps.

MirrorMaker 2 writes its copies uncompressed, which suits it better than compressing; the peers compress by the \
topic's codec, and twinlog keeps each batch's codec.

Requests are counted by a metrics reporter inside each broker, which reads the broker's own request metrics twice a \
second, at the same small cost for all systems. They are those from the start of the process to half a second after \
the last record, with all that the system itself writes on the target or reads from the source beside the copy.

The brokers are warmed up first, and before each topic with replays of that very topic until these get no faster, and \
with the same load from Kafka's own idempotent producer. The systems are not: the process starts when the topic is \
there, and what a cold JVM or interpreter costs is part of its figures.

`twinlog warm-up` was run once before, as at an installation; it keeps the classes that Spark's JVM loads. What the \
start takes without it is shown once. MirrorMaker 2 has no such step. Where records are copied, twinlog runs without \
its bridge: the figures are those of Spark's tasks, and their start is Spark's. `start` and `start-at-once` have the \
bridge, as every user has. Both systems join a group first; in `start` brokers wait 3 s for more members of a new \
group, as by default, in `start-at-once` they do not.

Rates and CPU time count from the first record on the target to the last, looked at every 20 ms. CPU time is that of \
all processes of the system; that of the brokers stands beside it. A system may have read ahead before its first \
record arrives, so time and CPU from the start of the process are shown too.

Memory is the highest sum over all processes of the system, looked at twice a second, start included. PSS counts a \
page that processes share once, RSS once for each.

Latency is from just before `produce` on the source to just after `poll` on the target, with librdkafka at \
`linger.ms=0` and `fetch.wait.max.ms=10`, for {latency_s} s{lease}. Both are run again for at most a minute \
with `producer.linger.ms=0` instead of 5, which is Kafka's default.

The brokers' own limit is what two processes reach that only send requests made beforehand: one fetches the topic and \
drops it, the other appends the same bytes (small batches merged) to the target. A system that builds larger batches \
can exceed it.

With a transform (`transform-1k`, `transform-100`) MirrorMaker 2 has `RegexRouter` with an expression that no topic \
matches, and twinlog a function that returns the batch; each record is decoded and encoded by both. twinlog copies the \
same topic once more without, which stands in the column of MirrorMaker 2. With a query (`sql-1k`, `sql-100`) twinlog \
has `transform.sql` in the place of the function, which gives each value as it is.

CPU with nothing or little to do (`low-rate-4`, `low-rate-2000`) is that of all processes of a system for half a \
minute at each rate, after all first records and 20 s more, with heartbeats, checkpoints, offset syncs and the \
copying of topic configs on, and topics refreshed every 600 s, as by default.

With many topics and groups (`scale`) each system has a source and a target of its own, writes offset syncs (for every \
record, `offset.lag.max=0`) and checkpoints, and syncs group offsets and topic configs; topics, groups, checkpoints \
and group offsets have their turn every 5 s in both.

The driver alone (`driver`) runs without Spark and without MirrorMaker 2, in its defaults; its copiers are one other \
process that speaks its protocol and sends progress reports. CPU is that of the driver's process over a minute.

A worker of Kafka Connect (`connect`) is alone in its group, on the target; Kafka's has the heap of MirrorMaker 2 and \
otherwise its defaults, as twinlog has. A connector is POSTed as soon as the worker takes it; both wait for \
`group.initial.rebalance.delay.ms` (3 s) of the brokers. Each client lists again when it has its answer, from a \
connection that it keeps, after ten seconds that do not count; the clients are one process on the same machine.

What a lost executor costs (`executor-lost`) is the longest time without a record in any remote partition, looked at \
every 50 ms; each of three workers has one core and runs one task. At the end all records are judged one by one.

What metrics cost (`metrics`) is the ratio of copies with a listener that is scraped every second to copies of the \
same topic without one, by turns in one run, of medians; CPU is that of all processes of twinlog, without the scraper. \
The topic is paused until the process has run for twelve seconds, and until the scraper has its first page; the CPU \
of the first pages, with the imports of the web pages, is a figure of its own. `console` is the same with five clients \
that keep the console's page of the flow open, as browsers do: a stream of events, and with each event the live part \
of the page and the new points of its charts, both compressed.

Copies are compared with their sources (`verify`) by `twinlog verify` on the machine's own cores, right after each \
copy, while nothing else runs; its rate counts from the first partition to the last, without the start of Spark.

Topics are DataFrames (`dataframes`) in one plain session on `local[2]` for each format, with a `noop` sink and Unix \
sockets to Python; the best of four rounds counts. Rows to write are made cheaply, for making them is not writing. \
Beside it stands Spark's own source of the same release.
"""
    found = [paragraph.replace("\\\n", "").replace("\n", " ") for paragraph in text.strip().split("\n\n")]
    if repeat > 1:
        found.append(f"Each figure is the median of {repeat} runs.")
    return found
