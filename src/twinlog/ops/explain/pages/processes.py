"""Messages about processes and copiers."""

from __future__ import annotations

from twinlog.ops.explain.message import NOTHING_CHANGED, NOTHING_TO_DO, UNAFFECTED, WAITS, Area, Message, Page

_LEADER = Area(
    name="LEADER",
    title="The process that runs a flow",
    about="The processes of a flow elect a leader, which copies; all other processes are on standby.",
    look=(
        "twinlog status mm2.properties",
        "kafka-consumer-groups.sh --bootstrap-server HOST:PORT --describe --group east-mm2 --members",
    ),
    messages=(
        Message(
            "TW-LEADER-01",
            "MirrorMaker 2 still runs the flow",
            "warning",
            lines=("`MirrorMaker 2 still runs this flow: group G of west has the members ...`",),
            meaning="The workers of MirrorMaker 2 would copy the same records.",
            impact="MirrorMaker 2 copies the records; twinlog waits.",
            mend=(
                "Stop MirrorMaker 2; twinlog takes over by itself. To run both, write the file of a "
                "[canary](canary.md) with `twinlog canary`."
            ),
        ),
        Message(
            "TW-LEADER-02",
            "Another version of twinlog runs the flow",
            "warning",
            lines=("`another version of twinlog runs this flow: group G of west has the members ...`",),
            meaning="The protocols of the two versions are incompatible.",
            impact="The other process copies the records; this process waits.",
            mend="Stop the other process; this process takes over by itself.",
        ),
        Message(
            "TW-LEADER-03",
            "Another process catches up with the flow",
            "info",
            lines=(
                (
                    "`HOST-PID catches up with this flow; once it has ended, this process copies what is left, if "
                    "anything`"
                ),
            ),
            meaning="Two processes run the flow with `--until-caught-up`.",
            impact="The other process copies the records.",
            mend=NOTHING_TO_DO,
            in_line=False,
        ),
        Message(
            "TW-LEADER-04",
            "The flow went to another process",
            "warning",
            lines=(("`EAST was out of reach from here for 60 s: handed over to HOST-PID, which may reach it`"),),
            meaning=(
                "A firewall, a route or a name on this machine is wrong, or the cluster is unreachable for every "
                "process."
            ),
            impact="The flow pauses for some seconds; the other process continues at the stored positions.",
            mend=(
                "Check the connection from this machine to the brokers. With `--until-caught-up` the process only "
                "waits."
            ),
        ),
        Message(
            "TW-LEADER-05",
            "A standby process lacks the source",
            "warning",
            lines=("`standing by for HOST-PID, not ready, as EAST was out of reach from here`",),
            meaning="See TW-LEADER-04.",
            impact="A take-over by this process would stop the flow.",
            mend="Check the connection from this machine to the brokers. The process then becomes ready by itself.",
        ),
        Message(
            "TW-LEADER-06",
            "The machine is out of threads",
            "warning",
            lines=(
                "`cannot be run here yet, trying again: can't start new thread`",
                "`cannot be ended here yet ...`",
            ),
            meaning="This user or container has reached the limit of threads, or this process the limit of open files.",
            impact="The named part of the flow waits; running copiers continue.",
            mend="Raise the limit (`ulimit -u`, `pids.max`; `ulimit -n` for files); twinlog continues by itself.",
            look=(
                "ulimit -u",
                "cat /sys/fs/cgroup/pids.max",
            ),
        ),
        Message(
            "TW-LEADER-07",
            "A flow moved for balance",
            "info",
            lines=("`handed over to HOST-PID, which runs N of the flows, this process M`",),
            meaning="The other process is ready and runs fewer flows.",
            impact="The flow pauses for some seconds; the other process continues at the stored positions.",
            mend=NOTHING_TO_DO,
            in_line=False,
        ),
        Message(
            "TW-LEADER-08",
            "The target refuses a standby process",
            "warning",
            lines=(
                (
                    "`WEST refuses this process: the leader of the flow is unknown here, and a take-over is "
                    "impossible; trying again`"
                ),
            ),
            meaning="A standby process lost its login or a right.",
            impact="The leader copies records; this process cannot take over.",
            mend="Follow the reason at the end of the line. After a success, `WEST answers again` follows.",
        ),
        Message(
            "TW-LEADER-09",
            "The target is silent for a standby process",
            "warning",
            lines=(
                (
                    "`WEST is silent: the leader of the flow is unknown here, and a take-over is impossible; trying "
                    "again`"
                ),
            ),
            meaning="A standby process does not reach the target.",
            impact="This process cannot take over until the target answers.",
            mend="Check the brokers of the target. After a success, `WEST answers again` follows.",
        ),
        Message(
            "TW-LEADER-10",
            "Two processes have different settings",
            "warning",
            lines=(
                ("`the settings of this process differ from those of HOST-PID, which runs the flow: KEYS`"),
                "`HOST-PID stands by with other settings than this process: KEYS`",
            ),
            meaning="Two processes run the same flow with different files.",
            impact="The flow copies by the settings of the leader.",
            mend=(
                "Make the files equal, and run `twinlog reload mm2.properties`: it prints the keys that need a "
                "restart. See [different files](running.md#different-files)."
            ),
        ),
        Message(
            "TW-LEADER-11",
            "The process was silent for too long",
            "warning",
            lines=("`this process was silent for too long, and another process may run the flow now`",),
            meaning="This process was frozen, or lost the target for the length of a session.",
            impact=(
                "The other process continues at the stored positions; records of the last seconds may be duplicates, "
                "unless `exactly.once.source.support` is on."
            ),
            mend="Check this machine for suspension and overload.",
        ),
        Message(
            "TW-LEADER-12",
            "The group is late to confirm the leadership",
            "warning",
            lines=("`nothing is copied until group G of west confirms again ...`",),
            meaning="The group's coordinator is silent.",
            impact=WAITS,
            mend="Check the brokers of the target; twinlog continues by itself.",
        ),
        Message(
            "TW-LEADER-13",
            "The target refuses the process",
            "error",
            lines=("`USER lacks READ on group G, needed for choosing which process runs the flow`",),
            meaning="The login lacks a right on the flow's group, so this process takes no part in the election.",
            impact="The flow waits in this process.",
            mend="Grant READ on the group in the line. twinlog tries again each minute.",
        ),
        Message(
            "TW-LEADER-14",
            "The leader is unknown yet",
            "warning",
            lines=("`cannot ask yet who runs this flow, trying again: ...`",),
            meaning="The coordinator of the flow's group fails to answer.",
            impact="This process waits; a leader elsewhere continues.",
            mend="Check the brokers of the target. twinlog tries again by itself.",
        ),
        Message(
            "TW-LEADER-15",
            "Consumers have the group of the flow",
            "warning",
            lines=("`FLOW: group G of west has the members ...`",),
            meaning="Other members, for example an application's consumers, use the group id that the flow needs.",
            impact="The flow waits in this process.",
            mend="Stop these members, or give the application another `group.id`.",
        ),
        Message(
            "TW-LEADER-16",
            "The brokers refuse every length of a session",
            "error",
            lines=("`it refuses sessions from N to N s; lower group.min.session.timeout.ms or raise ...`",),
            meaning="The brokers' limits exclude all session lengths that twinlog tries.",
            impact="The flow waits in this process.",
            mend=(
                "Lower `group.min.session.timeout.ms` of the brokers, for example to its default of 6000, or raise "
                "`group.max.session.timeout.ms`."
            ),
        ),
    ),
)

_LEASE = Area(
    name="LEASE",
    title="Copiers and their driver",
    about="The driver leases partitions to copiers, which run in tasks of Spark or in the bridge.",
    look=("twinlog status mm2.properties",),
    messages=(
        Message(
            "TW-LEASE-01",
            "A copier is silent",
            "warning",
            lines=("`copier NAME is silent, its partitions are given to another`",),
            meaning="A worker hung for seven seconds.",
            impact="The partitions pause for some seconds; another copier continues at their stored positions.",
            mend="Check the machine for overload or suspension. twinlog continues by itself.",
        ),
        Message(
            "TW-LEASE-02",
            "A copier is slow to release partitions",
            "warning",
            lines=("`copier NAME does not release its partitions, its connection is closed`",),
            meaning="The driver moves partitions to another copier, and the present copier is slow.",
            impact="Records of the last seconds may be copied again.",
            mend="Check the executor for overload. twinlog continues by itself.",
        ),
        Message(
            "TW-LEASE-03",
            "A stranger asked for a lease",
            "warning",
            lines=("`a connection was refused: its caller does not know the secret`",),
            meaning=(
                "A port scanner, or a copier of an earlier process, connected to the port for copiers "
                "(`twinlog.driver.port`)."
            ),
            impact=UNAFFECTED,
            mend="A few lines after a restart are normal. Otherwise find the program, and restrict access to the port.",
            look=("ss -tnp",),
        ),
        Message(
            "TW-LEASE-04",
            "A connection with a copier failed",
            "warning",
            lines=("`a connection was not accepted: ...`", "`a connection was closed: ...`"),
            meaning="The operating system refused a socket or a thread.",
            impact="The copier connects again; its partitions wait for some seconds.",
            mend="Raise the limits of open files and threads (`ulimit -n`, `ulimit -u`). twinlog continues by itself.",
            look=(
                "ulimit -n",
                "ulimit -u",
            ),
        ),
        Message(
            "TW-LEASE-05",
            "Driver and task have different versions",
            "error",
            lines=(
                (
                    "`copier NAME has protocol version 1 (twinlog ...), its driver protocol version 2 (twinlog ...): "
                    "they cannot work together. ...`"
                ),
                "`the planner of query NAME has ...`",
            ),
            meaning="A rolling upgrade is in progress, or executors have an older wheel.",
            impact=(
                "The task ends before its first record. Spark tries it four times; if all executors have another "
                "version, the flow is `FAILED`."
            ),
            mend=(
                "Install the same wheel on the driver and on the executors: the line names the older side. Restart "
                "twinlog."
            ),
        ),
        Message(
            "TW-LEASE-06",
            "The address for copiers is taken",
            "error",
            lines=(("`copiers cannot reach this process: port N of HOST (twinlog.driver.port) is taken, ...`"),),
            meaning="Two processes on this machine have the same port in their files.",
            impact=NOTHING_CHANGED,
            mend="Give each process its own port, or 0.",
        ),
        Message(
            "TW-LEASE-07",
            "The address for copiers is foreign",
            "error",
            lines=("`copiers cannot reach this process: it cannot wait for them at HOST:N ...`",),
            meaning=(
                "`twinlog.driver.bind.address`, or else `spark.driver.host`, is no address of this machine, for "
                "example behind NAT."
            ),
            impact=NOTHING_CHANGED,
            mend="Set `twinlog.driver.bind.address = 0.0.0.0`.",
        ),
    ),
)

PAGE = Page(
    "processes",
    "Processes and copiers",
    (
        _LEADER,
        _LEASE,
    ),
)
