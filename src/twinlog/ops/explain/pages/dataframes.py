"""Messages about topics as DataFrames."""

from __future__ import annotations

from twinlog.ops.explain.message import UNAFFECTED, Area, Message

DATA = Area(
    name="DATA",
    title="DataFrames",
    about="Sources and sinks of `twinlog.spark.dataframes` log these messages in Spark's driver or tasks.",
    look=("kafka-get-offsets.sh --bootstrap-server HOST:PORT --topic T",),
    messages=(
        Message(
            "TW-DATA-01",
            "A query has lost records",
            "warning",
            lines=("`some data may have been lost, and failOnDataLoss is false: ...`",),
            meaning="The source deleted records before the query read them, or a topic was recreated.",
            impact="The query's result lacks the deleted records.",
            mend="Raise the retention. Set `failOnDataLoss = true` if the query should end in this case.",
        ),
        Message(
            "TW-DATA-02",
            "kafka.group.id is ignored",
            "warning",
            lines=(
                ("`option kafka.group.id is ignored: partitions are assigned directly, by-passing consumer groups`"),
            ),
            meaning="The source assigns partitions directly, without a consumer group.",
            impact=UNAFFECTED,
            mend="Leave the option out.",
        ),
        Message(
            "TW-DATA-03",
            "A client option is ignored or unusual",
            "warning",
            lines=("`...`",),
            meaning="A `kafka.*` option of the DataFrame is ignored, or has a surprising effect.",
            impact="The query reads or writes as the line says.",
            mend="Correct the option in the line, or leave it out.",
        ),
        Message(
            "TW-DATA-04",
            "An option is ignored in batch queries",
            "warning",
            lines=("`OPTION option ignored in batch queries`",),
            meaning="The option limits the triggers of a stream; a batch query lacks triggers.",
            impact=UNAFFECTED,
            mend="Leave the option out. To limit a batch query, set `startingOffsets` and `endingOffsets`.",
        ),
        Message(
            "TW-DATA-05",
            "Offsets are asked for again",
            "warning",
            lines=("`offsets are asked for again: ...`",),
            meaning="A broker failed to answer the planner of a query.",
            impact="The query waits, and then reads every record.",
            mend=(
                "Wait: the planner asks again `fetchOffset.numRetries` times. If the query fails, follow the reason in "
                "the line."
            ),
        ),
        Message(
            "TW-DATA-06",
            "Partitions refuse records for the moment",
            "warning",
            lines=(
                ("`PARTITIONS accept no records, waiting for up to kafka.delivery.timeout.ms = N: ...`"),
                "`all partitions accept records again`",
            ),
            meaning=(
                "The partitions' brokers are silent, or too few replicas are in sync. The second line reports the end "
                "of the wait."
            ),
            impact="The write waits until the partitions accept records.",
            mend="Check the brokers of the target; a larger `kafka.delivery.timeout.ms` lets the write wait longer.",
            look=("kafka-topics.sh --bootstrap-server HOST:PORT --describe --unavailable-partitions",),
        ),
        Message(
            "TW-DATA-07",
            "A transaction of a write was aborted",
            "warning",
            lines=(
                (
                    "`...: its transaction was to be committed, but the target has aborted it; its rows are written "
                    "again`"
                ),
            ),
            meaning="A task ended between its two steps, and its transaction timed out.",
            impact="Consumers of committed records see each row once.",
            mend="If the line returns, raise `kafka.transaction.timeout.ms`.",
        ),
    ),
)
