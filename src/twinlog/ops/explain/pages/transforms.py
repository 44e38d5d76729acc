"""Messages about transforms."""

from __future__ import annotations

from twinlog.ops.explain.message import COPIES_NOTHING, ONE_PARTITION_WAITS, UNAFFECTED, WAITS, Area, Message, Page

_TRANSFORM = Area(
    name="TRANSFORM",
    title="Transforms and routers",
    about="A transform of the flow changes or routes records.",
    look=(
        "twinlog check mm2.properties",
        "twinlog status mm2.properties",
    ),
    messages=(
        Message(
            "TW-TRANSFORM-01",
            "A transform is missing in a task",
            "error",
            lines=("`... is unusable in this task: the module ... is missing`",),
            meaning="",
            impact=WAITS,
            mend=(
                "Put the transform's package into the image or the packed environment of [the "
                "executors](transforms.md#input-and-output)."
            ),
        ),
        Message(
            "TW-TRANSFORM-02",
            "A router chose a missing partition",
            "warning",
            lines=(
                (
                    "`routed: ... it routes the record at offset N of PARTITION to partition M of TOPIC, which has K; "
                    "...`"
                ),
            ),
            meaning="The source topic has more partitions than the router's target topic.",
            impact=ONE_PARTITION_WAITS,
            mend="Add partitions to the target topic; copying continues two seconds later.",
        ),
        Message(
            "TW-TRANSFORM-03",
            "A router created a topic",
            "info",
            lines=("`routed: topic ... was created with N partitions: ...`",),
            meaning="The router chose a missing topic for its first record.",
            impact=UNAFFECTED,
            mend="To choose settings of these topics, create the topics before the run.",
        ),
    ),
)

_SQL = Area(
    name="SQL",
    title="transform.sql",
    about="A JVM beside each copier evaluates the query of `transform.sql`.",
    look=(
        "twinlog check mm2.properties",
        "twinlog status mm2.properties",
    ),
    messages=(
        Message(
            "TW-SQL-01",
            "The JVM of transform.sql has ended",
            "warning",
            lines=(
                (
                    "`transform: T-0: transform: Spark's JVM for transform.sql was killed by ..., evaluating the "
                    "record at source offset N; a new JVM is started; no record is skipped for it`"
                ),
            ),
            meaning="The [JVM beside a copier](transforms.md#sql) ended; a new JVM is starting.",
            impact=ONE_PARTITION_WAITS,
            mend=(
                "If the line returns, raise `spark.executor.memoryOverhead` and look at that record: its result may be "
                "too large. An endless query is [a failure of the record](transforms.md#sql)."
            ),
        ),
        Message(
            "TW-SQL-02",
            "A query is unusable",
            "error",
            lines=("`... is unusable: ...`",),
            meaning="Spark refuses the query; the line quotes Spark.",
            impact=COPIES_NOTHING,
            mend="Correct the query; `twinlog check` reports the same error before a run.",
        ),
        Message(
            "TW-SQL-03",
            "A task lacks Java or Spark's jars",
            "error",
            lines=(
                "`Java is missing: ...`",
                "`the jars of Spark are missing in ...`",
            ),
            meaning="A flow with `transform.sql` needs Java and Spark's jars in its tasks.",
            impact=COPIES_NOTHING,
            mend="Follow the line, [in the image or on the host of the executors](transforms.md#sql).",
        ),
        Message(
            "TW-SQL-04",
            "A task has an unsupported PySpark",
            "error",
            lines=("`transform.sql is impossible to evaluate by PySpark V with the jars in ...: ...`",),
            meaning="A task finds a Spark of an unsupported version.",
            impact=COPIES_NOTHING,
            mend="Install PySpark 4.2 or 4.3 there, and check `SPARK_HOME`.",
        ),
        Message(
            "TW-SQL-05",
            "The check of a query failed",
            "warning",
            lines=("`... the check of the queries of transform.sql failed: ...`",),
            meaning="No JVM starts on this machine, so the queries are unchecked.",
            impact=UNAFFECTED,
            mend="If tasks have Java, there is nothing to do; a wrong query then stops the flow.",
        ),
    ),
)

PAGE = Page(
    "transforms",
    "Transforms",
    (
        _TRANSFORM,
        _SQL,
    ),
)
