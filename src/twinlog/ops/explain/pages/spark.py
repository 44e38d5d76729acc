"""Messages about Spark and DataFrames."""

from __future__ import annotations

from twinlog.ops.explain.message import NOTHING_CHANGED, NOTHING_TO_DO, UNAFFECTED, Area, Message, Page
from twinlog.ops.explain.pages.dataframes import DATA

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
            mend=NOTHING_TO_DO,
            in_line=False,
        ),
        Message(
            "TW-SPARK-02",
            "Spark lacks an executor",
            "warning",
            lines=("`Spark at URL has no executor for twinlog, and the bridge copies meanwhile: ...`",),
            meaning="Spark's workers lack a free core or memory, or executors cannot reach the driver.",
            impact="The bridge copies the records, with the CPU of the driver's machine.",
            mend="Free the resource in the line, or set `twinlog.driver.host`. Spark's tasks take over by themselves.",
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
            meaning="Usually the kernel ran out of memory (`dmesg` names the process).",
            impact="The bridge copies the records, or the flow waits for some seconds.",
            mend=(
                "twinlog continues by itself. If the line returns, give the machine or container more "
                "[memory](sizing.md#memory). After the sixth death within ten minutes, the process ends with exit "
                "code 3: start it again."
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
            mend="Wait. If the line returns, look at the machine.",
        ),
        Message(
            "TW-SPARK-05",
            "An error of Spark's JVM",
            "warning",
            lines=("`spark: ...`",),
            meaning="Spark's JVM or a Python worker wrote this line to its error output.",
            impact="twinlog restarts failed tasks and a failed JVM by itself.",
            mend="If `twinlog status` shows copying flows, there is nothing to do. Otherwise follow Spark's text.",
        ),
        Message(
            "TW-SPARK-06",
            "A query is started again",
            "warning",
            lines=("`the query is started again in N s`",),
            meaning="Spark ended the query, or failed to start its tasks.",
            impact="The query's partitions pause for some seconds.",
            mend="Wait. If the line returns, follow its reason.",
        ),
        Message(
            "TW-SPARK-07",
            "The bridge fails to start",
            "warning",
            lines=("`the bridge: it cannot run yet, flows wait for Spark: ...`",),
            meaning=(
                "The machine refused the bridge's process, or the process ended or hung. twinlog starts it again after "
                "a minute."
            ),
            impact="Flows wait until Spark has started.",
            mend="Free memory or processes.",
        ),
        Message(
            "TW-SPARK-08",
            "Tasks of Spark copy now",
            "info",
            lines=("`FLOW: Spark's tasks copy now`",),
            meaning="Tasks of Spark have replaced the bridge.",
            impact=UNAFFECTED,
            mend=NOTHING_TO_DO,
            in_line=False,
        ),
        Message(
            "TW-SPARK-09",
            "Flows share a task",
            "warning",
            lines=("`Spark runs ... at once for M flows: ... share a task`",),
            meaning="Spark has fewer slots than flows.",
            impact="Each of these flows has less CPU.",
            mend="Give Spark more cores if the flows fall behind.",
        ),
        Message(
            "TW-SPARK-10",
            "Spark has fewer slots than tasks.max",
            "warning",
            lines=("`Spark has ... that tasks.max allows: ...`",),
            meaning="",
            impact="The flows run with fewer tasks than the file allows.",
            mend="Give Spark more cores, or lower `tasks.max`.",
        ),
        Message(
            "TW-SPARK-11",
            "Spark's JVM ran out of heap",
            "warning",
            lines=("`Spark's JVM ran out of heap (spark.driver.memory)`",),
            meaning="Spark's heap is too small for its planned tasks.",
            impact="The bridge copies the records, or the flow waits for some seconds.",
            mend="Set `--conf spark.driver.memory=1g`. twinlog continues by itself.",
        ),
        Message(
            "TW-SPARK-12",
            "Spark's JVM fails again and again",
            "error",
            lines=("`twinlog ends: Spark's JVM ..., again after its restart 5 times within 10 min`",),
            meaning="The failure returned after each new start.",
            impact="This process copies no more; positions are stored.",
            mend="Remove the reason in the line, check memory, and restart twinlog.",
        ),
        Message(
            "TW-SPARK-13",
            "Spark lost an executor",
            "warning",
            lines=("`the copier of N partitions is gone, other copiers take over`",),
            meaning="Spark lost the executor, or the executor's machine.",
            impact="The partitions pause for some seconds; other copiers continue at their stored positions.",
            mend="If all machines are on, read the executor's log; the usual reason is memory.",
        ),
        Message(
            "TW-SPARK-14",
            "Spark has speculation on",
            "warning",
            lines=(
                "`this Spark has spark.speculation = true: ...`",
                "`spark.speculation is on: ...`",
            ),
            meaning="Your session or `--conf` has the setting: a second task for a copier occupies a slot for minutes.",
            impact=UNAFFECTED,
            mend="Set `spark.speculation = false`.",
        ),
        Message(
            "TW-SPARK-15",
            "Spark starts each Python worker for a single task",
            "warning",
            lines=("`this Spark has spark.python.worker.reuse = false: ...`",),
            meaning="The given Spark has settings that are unsuitable for long tasks.",
            impact="Copying pauses at the end of each lease.",
            mend="Change the setting in the line at the start of that Spark.",
        ),
        Message(
            "TW-SPARK-16",
            "Spark is slow to stop",
            "warning",
            lines=("`Spark takes longer than N s to stop and is ended: ... may keep idle executors`",),
            meaning="The cluster's master failed to answer in time.",
            impact=UNAFFECTED,
            mend="If the master still lists the application, end its executors in the cluster's user interface.",
        ),
        Message(
            "TW-SPARK-17",
            "A query failed to stop",
            "warning",
            lines=("`stopping a query failed: ...`",),
            meaning="The query stayed at the end of a flow or before its restart.",
            impact="The lease ends the query's copiers: each record is copied once.",
            mend="If the line returns, look at Spark's own log.",
        ),
        Message(
            "TW-SPARK-18",
            "A copier of a task has ended",
            "warning",
            lines=("`a copier ended, the other copiers of its task continue: ...`",),
            meaning="The driver gives the copier's partitions to another copier.",
            impact="The partitions pause for some seconds.",
            mend="Follow the reason at the end of the line.",
        ),
        Message(
            "TW-SPARK-19",
            "Spark's JVM hangs at the end",
            "warning",
            lines=(
                "`Spark's JVM does not answer, it is killed`",
                "`a silent JVM would hold up the end: ...`",
            ),
            meaning="Spark's JVM hangs at the end, or its watching thread failed to start.",
            impact="Positions are stored; records are unaffected.",
            mend="If the line returns, check the memory of the machine.",
        ),
        Message(
            "TW-SPARK-20",
            "Spark's settings leave too few slots",
            "warning",
            lines=(("`Spark's settings leave ... of tasks.max, by ...: flows get what there is; ...`"),),
            meaning="Your settings give the cluster fewer slots than `tasks.max` of all flows.",
            impact="The flows run with fewer tasks than the file allows.",
            mend="Follow the message. Or leave both settings out: twinlog then derives them from `tasks.max`.",
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
                "Copiers keep records outside of the JVM's heap; Kubernetes and YARN end an executor above its memory."
            ),
            impact="The cluster may end executors; their partitions then pause for some seconds.",
            mend=("Set the value in the line, or leave the setting out; see [memory](starting.md#executor-resources)."),
        ),
        Message(
            "TW-SPARK-22",
            "The address space of Python is limited",
            "warning",
            lines=("`spark.executor.pyspark.memory = N MB limits the addresses of M copiers, ...`",),
            meaning="With this setting Spark limits Python's address space, which exceeds the used memory.",
            impact="Copiers may fail; their partitions then pause for some seconds.",
            mend="Leave the setting out.",
        ),
        Message(
            "TW-SPARK-23",
            "Dynamic allocation is unbounded",
            "warning",
            lines=(
                ("`spark.dynamicAllocation.enabled is on, and spark.dynamicAllocation.maxExecutors is missing: ...`"),
            ),
            meaning="Your session has an unlimited number of executors.",
            impact="The flows run; Spark may ask for all executors of the cluster.",
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
                "The line quotes Spark or Java. The setting came from `--conf`, `--master`, `spark-defaults.conf` or "
                "twinlog."
            ),
            impact=NOTHING_CHANGED,
            mend=(
                "Correct the setting. If the line asks for Java, put Java 17 or later in `$JAVA_HOME` or on the path."
            ),
        ),
        Message(
            "TW-SPARK-25",
            "The given Spark has ended",
            "error",
            lines=(("`the SparkSession that was given to twinlog has been stopped, or its JVM has died: ...`"),),
            meaning="The Spark of spark-submit or of your program ended before twinlog.",
            impact="This process copies no more; positions are stored.",
            mend="Stop twinlog before Spark. The next start continues after the last copied record.",
        ),
        Message(
            "TW-SPARK-26",
            "Spark Connect is unsupported",
            "error",
            lines=(
                "`... asks for Spark Connect: leave it out. ...`",
                "`this is a session of Spark Connect. ...`",
            ),
            meaning="Spark Connect uses a Spark in another process.",
            impact=NOTHING_CHANGED,
            mend="[Start twinlog](starting.md) in or beside the driver.",
        ),
        Message(
            "TW-SPARK-27",
            "Flows run on a given Spark",
            "info",
            lines=("`flows run on the Spark that is there, MASTER: ...`",),
            meaning="Spark-submit, or your program, has started Spark.",
            impact=UNAFFECTED,
            mend="See [the lost functions](starting.md#limits-with-an-existing-spark-session).",
            in_line=False,
        ),
        Message(
            "TW-SPARK-28",
            "Partitions move for balance",
            "info",
            lines=("`N partitions move: what tasks carry was uneven`",),
            meaning="The load has shifted between topics.",
            impact="The partitions pause for a moment.",
            mend=NOTHING_TO_DO,
            in_line=False,
        ),
        Message(
            "TW-SPARK-29",
            "Directories of killed runs were removed",
            "info",
            lines=("`removed N directories of runs that were killed: ...`",),
            meaning="Killed processes left their directories behind, for example after `kill -9`.",
            impact=UNAFFECTED,
            mend=NOTHING_TO_DO,
            in_line=False,
        ),
        Message(
            "TW-SPARK-30",
            "A standby process waits for executors",
            "info",
            lines=(
                ("`standing by without executors; Spark at URL is asked for N cores when this process takes over`"),
            ),
            meaning="The slots of a Spark cluster are for the leader.",
            impact="A take-over waits for executors; the bridge copies meanwhile.",
            mend="Check that the cluster has these cores at a take-over.",
            in_line=False,
        ),
        Message(
            "TW-SPARK-31",
            "Spark decommissions executors",
            "info",
            lines=("`N partitions move: Spark decommissions their executors`",),
            meaning="A worker, a node or a pod will end soon.",
            impact="The partitions pause for a moment; other copiers continue before the executor ends.",
            mend=NOTHING_TO_DO,
            in_line=False,
        ),
    ),
)

PAGE = Page("spark", "Spark and DataFrames", (_SPARK, DATA))
