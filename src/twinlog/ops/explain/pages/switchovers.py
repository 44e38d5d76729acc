"""Messages about switchovers."""

from __future__ import annotations

from twinlog.ops.explain.message import NOTHING_CHANGED, Area, Message

SWITCH = Area(
    name="SWITCH",
    title="Switchover",
    about="`twinlog switchover` and `twinlog switchback` print these messages.",
    look=(
        "twinlog switchover mm2.properties --from east --to west --dry-run",
        "twinlog status mm2.properties",
    ),
    escalate=(
        "Leave the switchover as it is, and give the report of the command to the people who maintain twinlog: each "
        "step can be continued or undone later."
    ),
    messages=(
        Message(
            "TW-SWITCH-01",
            "Producers still write",
            "warning",
            lines=("`settle: producers still write to TOPIC`",),
            meaning="Super users, a producer below the quota, or running producers with `--fence none` pass the fence.",
            impact="The switchover waits; records are copied.",
            mend=(
                "Stop the producers; twinlog continues by itself. To undo the switchover, press Ctrl-C and run it with "
                "`--abort` in another terminal."
            ),
        ),
        Message(
            "TW-SWITCH-02",
            "A record came after the cut",
            "warning",
            lines=(("`watch: somebody wrote to TOPIC on CLUSTER after the cut: stop that; it is copied, too`"),),
            meaning="A super user passed the fence after twinlog had released the producers.",
            impact="The late records are on the target behind newer records.",
            mend="Stop this producer. The report has the offsets of its copied records.",
        ),
        Message(
            "TW-SWITCH-03",
            "A topic is written in spite of the fence",
            "error",
            lines=(("`somebody writes to TOPIC on CLUSTER in spite of the fence, or it is not copied; ...`"),),
            meaning="A producer still writes, or the flow does not run; all other producers write to the target.",
            impact="The late records wait on the source.",
            mend="Stop the producer, let the flow run, and run the same command again.",
        ),
        Message(
            "TW-SWITCH-04",
            "An abort came too late",
            "error",
            lines=("`switchover east->west: producers may write to west already; ...`",),
            meaning="`--abort` came too late: producers could write to both clusters.",
            impact=NOTHING_CHANGED,
            mend="Complete the same command, and go back with `switchback`.",
        ),
        Message(
            "TW-SWITCH-05",
            "Two waves have the same topic",
            "error",
            lines=("`TOPIC: fenced already by wave NAME of switchover east->west; ...`",),
            meaning="The release of either wave's fence would release the other fence.",
            impact=NOTHING_CHANGED,
            mend="Run `--release` of that wave, or choose another file.",
        ),
        Message(
            "TW-SWITCH-06",
            "The switchover waits for transactions",
            "warning",
            lines=("`settle: waits for transactions to end: ...`",),
            meaning="A producer died within a transaction.",
            impact="The switchover waits; producers are fenced meanwhile.",
            mend="Wait for the transaction timeout, or run `kafka-transactions.sh abort`.",
        ),
        Message(
            "TW-SWITCH-07",
            "Another operator works on the switchover",
            "error",
            lines=("`process PID on HOST works on switchover ...; without a further entry it counts as ended in N s`",),
            meaning="Another operator works on the switchover, or you do in another terminal.",
            impact=NOTHING_CHANGED,
            mend="Wait for that process, or for its N seconds. If it has ended for good, use `--take-over`.",
        ),
        Message(
            "TW-SWITCH-08",
            "Another process continues the switchover",
            "error",
            lines=("`another process writes ... now`",),
            meaning="",
            impact="This process stops; the other process continues.",
            mend="Leave the switchover to that process, or run the command again after its end.",
        ),
        Message(
            "TW-SWITCH-09",
            "An undo was interrupted",
            "error",
            lines=("`switchover east->west is being undone; run it with --abort to complete that`",),
            meaning="",
            impact="Producers may still be fenced.",
            mend="Run `twinlog switchover ... --abort`.",
        ),
        Message(
            "TW-SWITCH-10",
            "A step took too long",
            "error",
            lines=(
                "`step ... was not done within 600 s of fencing producers: ...; everything was undone, ...`",
                "`step catch-up took longer than 600 s, and producers stayed unfenced: ...`",
            ),
            meaning="The flow does not run, or is too slow.",
            impact="Every step is undone: producers write to the source as before.",
            mend="Run `twinlog status`. Then run the same command again, if needed with a larger `--timeout`.",
        ),
        Message(
            "TW-SWITCH-11",
            "The command does not fit the switchover",
            "error",
            lines=(
                "`a switchover east->west of another kind (planned) has begun; complete it, or undo it with --abort`",
                "`switchover east->west: nothing is under way`",
                "`switchover east->west must be done before its fence can be released`",
                "`switchover east->west in the journal has ..., and this file ...; ...`",
            ),
            meaning="The journal has another switchover, or a switchover in another state than the command needs.",
            impact=NOTHING_CHANGED,
            mend="Look with `--status`, and use the options and the file that the switchover began with.",
            look=("twinlog switchover mm2.properties --from east --to west --status",),
        ),
        Message(
            "TW-SWITCH-12",
            "The clusters are not ready for a switchover",
            "error",
            lines=(
                "`TOPICS: nothing is copied yet, by the positions on WEST; ...`",
                "`N partitions of EAST have no leader`",
                "`this login lacks ALTER on cluster EAST, needed for --fence acl; ...`",
                "`... lacks WRITE on ..., needed for the journal of switchovers; ...`",
                "`orders-3 is paused with N records to copy; ...`",
                "`no process of flow east->west is in its group, and its positions stayed the same ...`",
            ),
            meaning="The pre-flight checks found an obstacle before the first change.",
            impact=NOTHING_CHANGED,
            mend="Follow each line, and run the rehearsal until it prints no obstacle.",
        ),
        Message(
            "TW-SWITCH-13",
            "A step of a switchover failed",
            "error",
            lines=("`twinlog: ...`",),
            meaning="A step ended with the error of the line; the next line names the last step.",
            impact="Producers may still be fenced, as the next line says.",
            mend="Run the same command again: it continues at this step. `--abort` undoes the switchover.",
        ),
        Message(
            "TW-SWITCH-14",
            "The flow copies nothing",
            "warning",
            lines=("`catch-up: N records left; nothing is copied: flow east->west must run`",),
            meaning="The positions of the flow stay the same, so no process runs the flow, or the flow waits.",
            impact="The switchover waits until `--timeout`; producers write to the source as before.",
            mend="Start the flow, or look at `twinlog status`; the switchover continues by itself.",
        ),
        Message(
            "TW-SWITCH-15",
            "Producers write to the target too early",
            "warning",
            lines=(
                "`settle: waits until the copies stand still; TOPICS grows on WEST: producers must not write ...`",
                "`the copies of TOPICS on WEST have grown for 600 s; stop flow EAST->WEST and ...`",
            ),
            meaning="From an emergency switchover: a remote topic gets new records.",
            impact="The switchover waits until `--timeout`.",
            mend="Stop the producers on the target until the switchover has reached the step `open`.",
        ),
        Message(
            "TW-SWITCH-16",
            "The journal of a switchover is silent",
            "error",
            lines=(
                (
                    "`cluster WEST, which keeps the journal of switchover east->west, gave no answer, and no journal "
                    "is known: ...`"
                ),
                "`cluster WEST, which keeps the journal of switchover east->west, is silent now; as last read: ...`",
            ),
            meaning=(
                "The line before has the error of a cluster. The journal is on the cluster to move to, also with "
                "`--emergency`, which continues without the source only. Without a known journal this command ran no "
                "step."
            ),
            impact="Producers may be fenced by an earlier switchover, or by the last read step.",
            mend=(
                "Start the cluster to move to, or correct its `bootstrap.servers`. Then `--status` prints the state, "
                "and the same command continues. For a lost journal see "
                "[the journal](switchover.md#when-it-is-interrupted)."
            ),
            look=("twinlog switchover mm2.properties --from east --to west --status",),
        ),
        Message(
            "TW-SWITCH-17",
            "The end of a console interrupts a switchover",
            "warning",
            lines=("`switchover east->west is interrupted; continue it on the page of the switchover, or by ...`",),
            meaning="A switchover that the console carried out was under way when the console ended.",
            impact="Producers may be fenced. The journal has every finished step.",
            mend="Start the console, and choose `Continue` or `Undo`; or run `twinlog switchover` with the same file.",
            look=("twinlog switchover mm2.properties --from east --to west --status",),
        ),
        Message(
            "TW-SWITCH-18",
            "The switchover waits for a paused partition",
            "warning",
            lines=("`catch-up: T-0 is paused with N records to copy; have it copied by ...`",),
            meaning="An operator paused the topic or the partition by [`twinlog topics pause`](topics.md#pauses).",
            impact="The switchover waits; in a step after `fence` producers wait, too.",
            mend="Run the command in the line; the switchover continues by itself.",
            look=("twinlog topics list mm2.properties",),
        ),
        Message(
            "TW-SWITCH-19",
            "The switchover waits for the proof of equality",
            "warning",
            lines=(
                "`catch-up: ...; the proof of equality is N s behind`",
                "`drain: ... to prove equal: T-0 is proven up to N, the cut is N`",
                "`drain: ... to prove equal: T-0 lacks a proof; the flow must run with its proof`",
            ),
            meaning=(
                "The flow proved these topics when the switchover began, see [proof](proof.md#switchover). The prover "
                "is slow, the target refuses its fetches, or the flow was restarted without `twinlog.proof` or "
                "`--prove`."
            ),
            impact=(
                "The switchover waits; in a step after `fence` producers wait, too, and `--timeout` undoes the "
                "switchover."
            ),
            mend=(
                "Look at the line `proof` of `twinlog status`, and for `TW-PROOF-02` in the log of the "
                "flow. Start the flow with its proof. Without the proof as its gate a switchover begins when the flow "
                "runs without it: `--abort` this one first."
            ),
            look=("twinlog status mm2.properties",),
        ),
        Message(
            "TW-SWITCH-20",
            "A part of a switchover was refused",
            "error",
            lines=(
                "`commits of GROUPS on WEST would be refused: User:mirror lacks READ on topic TOPIC of WEST; ...`",
                "`WEST refused the commit of group GROUP in TOPIC-0 at N: ...; then run the same command again: ...`",
                "`the offsets of GROUPS on EAST were unreadable: ...`",
                "`create topic TOPIC on WEST: ...`",
                "`TOPIC was not moved, as the check did not see it: its producers write to EAST unfenced; ...`",
                "`producers on EAST are unfenced, though EAST answers: keep them away (...); ...`",
            ),
            meaning=(
                "The rehearsal finds missing rights, and the step `topics` the rights on topics that it has created. "
                "The other lines belong to a switchover that is done otherwise. Brokers hide a topic from a login "
                "without DESCRIBE: after a grant, the same command names the unmoved topic."
            ),
            impact="The groups of the line do not continue on the target; all other groups and the records are there.",
            mend=(
                "Grant the right before consumers of these groups start, and run the same command again: after the end "
                "it only commits offsets."
            ),
            look=("twinlog acls mm2.properties --for switchover --missing",),
        ),
        Message(
            "TW-SWITCH-21",
            "A fence stays after its release",
            "error",
            lines=(
                "`fence of DENY WRITE User:* on TOPICS stays, it was set by hand or by an earlier switchover: ...`",
                "`fence of DENY WRITE User:* on TOPICS stays, it is the fence of wave NAME of switchover ...`",
                "`fence of QUOTA stays, it was set by hand or by an earlier switchover: ...`",
                "`... is fenced by a switchover whose journal is lost: ...`",
            ),
            meaning=(
                "`--release` removes the fence of its own switchover. Another ACL or quota keeps producers from the "
                "topics: an administrator created it, or a switchover whose journal was deleted."
            ),
            impact="Producers of the topics in the line stay refused on the source.",
            mend="Run the command in the line, and `--release` a second time.",
            look=(
                "kafka-acls.sh --bootstrap-server HOST:PORT --command-config client.properties --list --topic TOPIC",
            ),
        ),
    ),
)
