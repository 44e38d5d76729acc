"""Messages about Spark and DataFrames."""

from __future__ import annotations

from twinlog.explain.message import NOTHING_CHANGED, UNAFFECTED, Area, Message, Page

_SPARK = Area(
    name="SPARK",
    title="Spark",
    about="twinlog copies records in tasks of Spark; a bridge copies while Spark is starting.",
    look=(
        "twinlog status mm2.properties",
        "dmesg | grep -i 'out of memory'",
    ),
    messages=(
        Message(
            "TW-SPARK-01",
            "The bridge copies until Spark runs",
            "info",
            lines=("`FLOW: the bridge copies until Spark has a task for the flow`",),
            meaning="Spark is starting, was lost, or waits for executors.",
            impact="The bridge copies the records.",
            mend="For information only.",
            in_line=False,
        ),
        Message(
            "TW-SPARK-02",
            "Spark lacks an executor",
            "warning",
            lines=("`Spark at URL has no executor for twinlog, and the bridge copies meanwhile: ...`",),
            meaning=("The cluster's workers lack a free core or memory, or its executors cannot reach the driver."),
            impact="The bridge copies the records, with the CPU of the driver's machine.",
            mend=("Free what the line names, or set `twinlog.driver.host`; Spark's tasks take over by themselves."),
        ),
        Message(
            "TW-SPARK-03",
            "Spark is started again",
            "warning",
            lines=(
                (
                    "`Spark's JVM was killed by SIGKILL: Spark is started again now ..., and the bridge copies "
                    "meanwhile`"
                ),
            ),
            meaning="Usually the kernel had run out of memory (`dmesg` names the process).",
            impact=("The bridge copies the records, or the flow waits for some seconds; all records are kept."),
            mend=(
                "twinlog continues by itself; if the message returns, give the machine or the container more memory."
            ),
        ),
        Message(
            "TW-SPARK-04",
            "Spark takes long to start",
            "warning",
            lines=(
                ("`Spark has not started within 30 s: twinlog waits for Spark, and the bridge copies meanwhile`"),
                "`Spark's JVM (process N) has been starting for N s and is still to listen: ...`",
            ),
            meaning="The machine is busy, or the cluster's master is slow.",
            impact="The bridge copies the records, or the flow waits.",
            mend="For information only; look at the machine if the line stays.",
        ),
        Message(
            "TW-SPARK-05",
            "An error of Spark's JVM",
            "warning",
            lines=("`spark: ...`",),
            meaning="Spark's JVM, or a Python worker of Spark, wrote this line to its error output.",
            impact="Depends on the line: twinlog starts failed tasks and a failed JVM again by itself.",
            mend=(
                "If flows copy (see `twinlog status`), the message is for information only. Otherwise follow the text "
                "of Spark."
            ),
        ),
        Message(
            "TW-SPARK-06",
            "A query is started again",
            "warning",
            lines=("`the query is started again in N s`",),
            meaning="Spark ended the query, or failed to start tasks on its lease.",
            impact="The partitions of the query pause for some seconds; all records are kept.",
            mend="Wait: twinlog continues by itself; if the message returns, see the reason in the line.",
        ),
        Message(
            "TW-SPARK-07",
            "The bridge fails to start",
            "warning",
            lines=("`the bridge: it cannot run yet, flows wait for Spark: ...`",),
            meaning=(
                "The machine refused the process, or the process ended or hung; twinlog starts it again after a minute."
            ),
            impact="Flows wait until Spark has started; then tasks copy the records.",
            mend="Free memory or processes; Spark's tasks copy in any case.",
        ),
        Message(
            "TW-SPARK-08",
            "Tasks of Spark copy now",
            "info",
            lines=("`FLOW: Spark's tasks copy now`",),
            meaning="Tasks of Spark have taken the partitions over from the bridge.",
            impact=UNAFFECTED,
            mend="For information only.",
            in_line=False,
        ),
        Message(
            "TW-SPARK-09",
            "Flows share a task",
            "warning",
            lines=("`Spark runs ... at once for M flows: ... share a task`",),
            meaning="Spark has fewer slots than flows, so some flows share a core.",
            impact="The flows are copied, with less CPU for each flow.",
            mend="For information only, or give Spark more cores.",
        ),
        Message(
            "TW-SPARK-10",
            "Spark has fewer slots than tasks.max",
            "warning",
            lines=("`Spark has N slots for M tasks that tasks.max allows`",),
            meaning="Spark has fewer slots than requested.",
            impact="The flows are copied, with fewer tasks than the file allows.",
            mend="Give Spark more cores, or set a smaller `tasks.max`.",
        ),
        Message(
            "TW-SPARK-11",
            "Spark's JVM ran out of heap",
            "warning",
            lines=("`Spark's JVM ran out of heap (spark.driver.memory)`",),
            meaning="Spark's heap is too small for its planned tasks.",
            impact=("The bridge copies the records, or the flow waits for some seconds; all records are kept."),
            mend="twinlog continues by itself; set `--conf spark.driver.memory=1g`.",
        ),
        Message(
            "TW-SPARK-12",
            "Spark's JVM fails again and again",
            "error",
            lines=("`twinlog ends: Spark's JVM ..., again after its restart 5 times within 10 min`",),
            meaning="The failure returned after each new start.",
            impact="Copying by this process has ended; positions are stored.",
            mend="Remove the reason in the message, and check memory; then start twinlog again.",
        ),
        Message(
            "TW-SPARK-13",
            "Spark lost an executor",
            "warning",
            lines=("`the copier of N partitions is gone, other copiers take them over`",),
            meaning="Spark lost the executor, or the executor's machine.",
            impact=("The partitions pause for some seconds, and other copiers continue at their stored positions."),
            mend=("For information only; if all machines are on, the executor's log has the reason, usually memory."),
        ),
        Message(
            "TW-SPARK-14",
            "Spark has speculation on",
            "warning",
            lines=(
                "`this Spark has spark.speculation = true: ...`",
                "`spark.speculation is on: ...`",
            ),
            meaning=(
                "A second task for a copier's share waits in a slot for minutes. Your session has the setting; or "
                "`--conf` has it."
            ),
            impact=UNAFFECTED,
            mend="Set `spark.speculation = false`.",
        ),
        Message(
            "TW-SPARK-15",
            "Spark starts each Python worker for a single task",
            "warning",
            lines=("`this Spark has spark.python.worker.reuse = false: ...`",),
            meaning=("The given Spark has settings that are unsuitable for tasks with the lifetime of a lease."),
            impact="Copying pauses at the end of each lease.",
            mend="Change the setting that the message names, at the start of that Spark.",
        ),
        Message(
            "TW-SPARK-16",
            "Spark is slow to stop",
            "warning",
            lines=("`Spark takes longer than N s to stop and is ended: ... may keep idle executors`",),
            meaning="The cluster's master failed to answer in time at the end of the process.",
            impact=UNAFFECTED,
            mend=(
                "End idle executors in the user interface of the cluster, if the master still lists the application."
            ),
        ),
        Message(
            "TW-SPARK-17",
            "A query failed to stop",
            "warning",
            lines=("`stopping a query failed: ...`",),
            meaning="Spark failed to stop a query at the end of a flow or before a restart of the query.",
            impact="The lease ends the copiers of the query, so that each record is copied once.",
            mend="For information only. If the line returns, look at Spark's own log.",
        ),
        Message(
            "TW-SPARK-18",
            "A copier of a task has ended",
            "warning",
            lines=("`a copier ended, the other copiers of its task continue: ...`",),
            meaning=(
                "A copier in a task of Spark ended with an error. The driver gives its partitions to another copier."
            ),
            impact="The partitions pause for some seconds; all records are kept.",
            mend="See the reason at the end of the line.",
        ),
        Message(
            "TW-SPARK-19",
            "Spark's JVM hangs at the end",
            "warning",
            lines=(
                "`Spark's JVM does not answer, it is killed`",
                "`a silent JVM would hold up the end: ...`",
            ),
            meaning=("The process ends, and Spark's JVM hangs; or the start of a thread that watches the JVM failed."),
            impact="Positions are stored before this step; records are unaffected.",
            mend="For information only. If the line returns, check the memory of the machine.",
        ),
        Message(
            "TW-SPARK-20",
            "Spark's settings leave too few slots",
            "warning",
            lines=(
                ("`Spark's settings leave N slots for M tasks of tasks.max, by ...: flows get what there is; ...`"),
            ),
            meaning="Your settings give a cluster fewer slots than `tasks.max` of all flows.",
            impact="The flows are copied, with fewer tasks than the file allows.",
            mend=("Follow the message, or leave both settings out: then twinlog derives both from `tasks.max`."),
        ),
        Message(
            "TW-SPARK-21",
            "The memory overhead of executors is small",
            "warning",
            lines=(
                (
                    "`spark.executor.memoryOverhead is N MB, where M copiers of ... may take ... MB: the executor "
                    "would be ended for it; ...`"
                ),
            ),
            meaning=(
                "Records and Python of copiers are in memory beside the JVM's heap; Kubernetes and YARN end an "
                "executor that exceeds its memory."
            ),
            impact="The cluster may end executors; their partitions pause for some seconds each time.",
            mend=(
                "Set the value in the message, or leave the setting out; see "
                "[memory](clusters.md#what-executors-are-asked-for)."
            ),
        ),
        Message(
            "TW-SPARK-22",
            "The address space of Python is limited",
            "warning",
            lines=("`spark.executor.pyspark.memory = N MB limits the addresses of M copiers, ...`",),
            meaning=(
                "With this setting Spark limits the address space of Python; the address space is larger than the "
                "used memory."
            ),
            impact=("Copiers may fail for lack of memory; their partitions pause for some seconds each time."),
            mend="Leave the setting out.",
        ),
        Message(
            "TW-SPARK-23",
            "Dynamic allocation is unbounded",
            "warning",
            lines=(
                ("`spark.dynamicAllocation.enabled is on, and spark.dynamicAllocation.maxExecutors is missing: ...`"),
            ),
            meaning="In your session the number of executors is unlimited.",
            impact="The flows are copied; Spark may ask for all executors of the cluster.",
            mend="Set both bounds, or `false`.",
        ),
        Message(
            "TW-SPARK-24",
            "Spark refuses a setting",
            "error",
            lines=(
                "`Spark refuses: KEY = VALUE (--conf): ...`",
                "`Spark's JVM ended with code N before it listened: ...`",
            ),
            meaning=(
                "Spark or Java refuses a setting, and the line quotes the reason; the setting came from `--conf`, "
                "`--master`, `spark-defaults.conf` or twinlog."
            ),
            impact=NOTHING_CHANGED,
            mend=(
                "Correct the setting. If the line omits the setting: put Java 17 or later in `$JAVA_HOME` or on the "
                "path."
            ),
        ),
        Message(
            "TW-SPARK-25",
            "The given Spark has ended",
            "error",
            lines=(("`the SparkSession that was given to twinlog has been stopped, or its JVM has died: ...`"),),
            meaning="The Spark of spark-submit or of your program ended before twinlog.",
            impact="Copying by this process has ended; positions are stored.",
            mend=("Stop twinlog first; the copied records are stored, and the next start continues after them."),
        ),
        Message(
            "TW-SPARK-26",
            "Spark Connect is unsupported",
            "error",
            lines=(
                "`... asks for Spark Connect: leave it out. ...`",
                "`this is a session of Spark Connect. ...`",
            ),
            meaning="A client of Spark Connect uses a Spark in another process.",
            impact=NOTHING_CHANGED,
            mend="[start twinlog](starting.md) in or beside the driver.",
        ),
        Message(
            "TW-SPARK-27",
            "Flows run on a given Spark",
            "info",
            lines=("`flows run on the Spark that is there, MASTER: ...`",),
            meaning="Spark-submit, or your program, has started Spark.",
            impact=UNAFFECTED,
            mend=("For information only; [the lost functions](starting.md#what-is-lost-on-a-spark-of-others)."),
            in_line=False,
        ),
        Message(
            "TW-SPARK-28",
            "Partitions move for balance",
            "info",
            lines=("`N partitions move: what tasks carry was uneven`",),
            meaning="The load has shifted between topics.",
            impact="The partitions pause for a moment.",
            mend="For information only.",
            in_line=False,
        ),
        Message(
            "TW-SPARK-29",
            "Directories of killed runs were removed",
            "info",
            lines=("`removed N directories of runs that were killed: ...`",),
            meaning="Killed processes left their directories behind, for example after a `kill -9`.",
            impact=UNAFFECTED,
            mend="For information only.",
            in_line=False,
        ),
        Message(
            "TW-SPARK-30",
            "A standby process waits for executors",
            "info",
            lines=(
                ("`standing by without executors; Spark at URL is asked for N cores when this process takes over`"),
            ),
            meaning="The slots of a Spark cluster are for the process that runs the flows.",
            impact="A take-over waits until the cluster has given executors; the bridge copies meanwhile.",
            mend="For information only, if the cluster has these cores at a take-over.",
            in_line=False,
        ),
        Message(
            "TW-SPARK-31",
            "Spark decommissions executors",
            "info",
            lines=("`N partitions move: Spark decommissions their executors`",),
            meaning="Spark knows that a worker, a node or a pod will end soon.",
            impact="The partitions pause for a moment.",
            mend="For information only: other copiers continue before the executor ends.",
            in_line=False,
        ),
    ),
)

_DATA = Area(
    name="DATA",
    title="DataFrames",
    about="Sources and sinks of `twinlog.dataframes` log these messages in Spark's driver or tasks.",
    look=("kafka-get-offsets.sh --bootstrap-server HOST:PORT --topic T",),
    messages=(
        Message(
            "TW-DATA-01",
            "A query has lost records",
            "warning",
            lines=("`some data may have been lost, and failOnDataLoss is false: ...`",),
            meaning="The source has deleted records before the query read them, or a topic was recreated.",
            impact="The deleted records are missing in the result of the query.",
            mend=("Set a longer retention, or `failOnDataLoss = true` if the query should end in this case."),
        ),
        Message(
            "TW-DATA-02",
            "kafka.group.id is ignored",
            "warning",
            lines=(
                ("`option kafka.group.id is ignored: partitions are assigned directly, by-passing consumer groups`"),
            ),
            meaning="The source assigns partitions directly; a consumer group is unused.",
            impact=UNAFFECTED,
            mend="Leave the option out.",
        ),
        Message(
            "TW-DATA-03",
            "A client option is ignored or unusual",
            "warning",
            lines=("`...`",),
            meaning=(
                "An option `kafka.*` of the DataFrame is ignored, or has an effect that its author hardly intended. "
                "The line names the option."
            ),
            impact="The query reads or writes as the line describes it.",
            mend="Correct the option that the line names, or leave it out.",
        ),
        Message(
            "TW-DATA-04",
            "An option is ignored in batch queries",
            "warning",
            lines=("`OPTION option ignored in batch queries`",),
            meaning="The option limits the triggers of a stream, and a batch query lacks triggers.",
            impact=UNAFFECTED,
            mend=("Leave the option out; to limit a batch query, set `startingOffsets` and `endingOffsets`."),
        ),
        Message(
            "TW-DATA-05",
            "Offsets are asked for again",
            "warning",
            lines=("`offsets are asked for again: ...`",),
            meaning="A broker failed to answer the planner of a query. The line has the reason.",
            impact="The query waits; every record is read.",
            mend=(
                "Wait: the planner asks again `fetchOffset.numRetries` times. If the query fails, follow the reason "
                "in the line."
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
                "The brokers of the partitions are silent, or too few replicas are in sync. The second line reports "
                "the end of the wait."
            ),
            impact="The write waits; rows are written once the partitions accept records.",
            mend=("Check the brokers of the target; a larger `kafka.delivery.timeout.ms` lets the write wait longer."),
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
            meaning=(
                "A task ended between its two steps, and the transaction's timeout has passed before its successor "
                "came."
            ),
            impact="Consumers of committed records see each row once.",
            mend="If the line returns, set a larger `kafka.transaction.timeout.ms`.",
        ),
    ),
)

PAGE = Page(
    "spark",
    "Spark and DataFrames",
    (
        _SPARK,
        _DATA,
    ),
)
