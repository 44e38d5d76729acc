"""Messages about files and reloading."""

from __future__ import annotations

from twinlog.explain.message import NOTHING_CHANGED, UNAFFECTED, Area, Message, Page

_FILE = Area(
    name="FILE",
    title="Configuration files",
    about=(
        "`twinlog check` prints these messages before a run, and every command that reads the file prints them, too."
    ),
    look=(
        "twinlog check mm2.properties",
        "twinlog check mm2.properties --explain 'east->west.topics'",
    ),
    escalate=(
        "If the setting is correct for MirrorMaker 2 and twinlog refuses the setting, give the line of the file and "
        "the message to the people who maintain twinlog."
    ),
    messages=(
        Message(
            "TW-FILE-01",
            "A key is unknown",
            "error",
            lines=("`problem: FILE:LINE: KEY: an unknown key; expected ...`",),
            meaning="The key is outside of twinlog's list of keys.",
            impact=NOTHING_CHANGED,
            mend=("Correct the key, or set `twinlog.unknown.keys = warn`; `connect-mirror-maker` only warns."),
            in_line=False,
        ),
        Message(
            "TW-FILE-02",
            "A line has two equals signs",
            "error",
            lines=(
                "`FILE:LINE: KEY: '=VALUE'; expected ...; a second = belongs to the value`",
                "`... is impossible as a name: a second = belongs to the value; write a single =`",
            ),
            meaning="The line says `KEY==VALUE`: Java's properties end the key at the first equals sign.",
            impact=NOTHING_CHANGED,
            mend="Write a single equals sign.",
            in_line=False,
        ),
        Message(
            "TW-FILE-03",
            "A value is read in a safer way",
            "warning",
            lines=("`FILE:LINE: KEY: VALUE is read as VALUE: ...`",),
            meaning=(
                "MirrorMaker 2 starts with the first value. twinlog uses the second value, which is at least as safe "
                "or has the same meaning."
            ),
            impact=UNAFFECTED,
            mend="For information only; write the second value to silence the line.",
            in_line=False,
        ),
        Message(
            "TW-FILE-04",
            "A regular expression is wrong",
            "error",
            lines=("`problem: FILE:LINE: KEY: ..., at character N of ...`",),
            meaning="Java refuses the regular expression as well.",
            impact=NOTHING_CHANGED,
            mend=(
                "Correct the expression at that character. The count leaves out the backslashes that a properties "
                "file doubles. A list is split at every comma, also inside of braces."
            ),
            in_line=False,
        ),
        Message(
            "TW-FILE-05",
            "A regular expression is too slow",
            "error",
            lines=(("`KEY: more than 1 s for the name NAME, as the body of a repeat can match in many ways ...`"),),
            meaning=(
                "A match of the expression would take very long. twinlog does not look at topics or groups until you "
                "change the expression."
            ),
            impact="Topics and groups that appear later wait until the expression has changed.",
            mend="Give the expression a single way to match: `[ab]+` for `(a|b)+`, `a+` for `(a+)+`.",
            in_line=False,
        ),
        Message(
            "TW-FILE-06",
            "Fields of Strimzi's resource are ignored",
            "warning",
            lines=("`FILE: these fields are ignored here: ...`",),
            meaning="Strimzi's resource has fields that have a meaning only on Kubernetes.",
            impact=UNAFFECTED,
            mend="For information only; [why](strimzi.md#fields).",
            in_line=False,
        ),
        Message(
            "TW-FILE-07",
            "A config provider has an unsupported class",
            "warning",
            lines=(
                (
                    "`FILE:LINE: config.providers.NAME.class: the Java class CLASS is unsupported here; a value that "
                    "refers to it ... is unreadable`"
                ),
            ),
            meaning="`config.providers` lists a provider with a class from outside of Kafka.",
            impact=UNAFFECTED,
            mend=(
                "For information only, while all values leave the provider unused; [otherwise](security.md#secrets) "
                "mount the secret as a file."
            ),
            in_line=False,
        ),
        Message(
            "TW-FILE-08",
            "A value needs an unsupported config provider",
            "error",
            lines=(
                (
                    "`... a reference that leads nowhere: ... needs the Java class CLASS (... of line N), which is "
                    "unsupported here`"
                ),
            ),
            meaning="A value that takes effect refers to a provider with a class from outside of Kafka.",
            impact=NOTHING_CHANGED,
            mend=(
                "Mount the secret as a file, and name [DirectoryConfigProvider or "
                "FileConfigProvider](security.md#secrets) in that line."
            ),
            in_line=False,
        ),
        Message(
            "TW-FILE-09",
            "A file of secrets has another encoding",
            "error",
            lines=("`... a reference that leads nowhere: the value of KEY in FILE is not UTF-8`",),
            meaning=("A file of secrets has another encoding; Kafka would send different characters to the broker."),
            impact=NOTHING_CHANGED,
            mend="Write the file in UTF-8, or the character as `\\uXXXX`.",
            in_line=False,
        ),
        Message(
            "TW-FILE-10",
            "A Secret or a ConfigMap is missing",
            "error",
            lines=("`... a reference that leads nowhere: the key KEY of NAME is missing: ...`",),
            meaning="twinlog looked in vain for a Secret or ConfigMap that a resource names.",
            impact=NOTHING_CHANGED,
            mend=("The message ends with the searched places; see [Secrets](strimzi.md#secrets-and-config-maps)."),
            in_line=False,
        ),
        Message(
            "TW-FILE-11",
            "The separator is empty",
            "warning",
            lines=(
                (
                    "`KEY: with an empty separator FLOW creates a remote topic with the settings of its source, and "
                    "leaves them as they are afterwards`"
                ),
            ),
            meaning=(
                "`replication.policy.separator` is empty, so MirrorMaker 2 recognises no remote topic by its name."
            ),
            impact="Each remote topic keeps the settings that it had at its creation.",
            mend=(
                "Choose the identity policy, as in the line: names and positions stay, see [names that are "
                "kept](configuration.md#names-that-are-kept)."
            ),
            in_line=False,
        ),
        Message(
            "TW-FILE-12",
            "Source and target have the same alias",
            "warning",
            lines=(
                (
                    "`FLOW calls source and target ..., so that the identity policy takes every topic for a copy from "
                    "the target`"
                ),
            ),
            meaning=("Both clusters have the same alias; the flow mirrors only heartbeats, as in MirrorMaker 2."),
            impact="The flow copies heartbeats only.",
            mend="Leave out `target.cluster.alias`.",
            in_line=False,
        ),
        Message(
            "TW-FILE-13",
            "Names follow another alias",
            "warning",
            lines=(
                "`KEY: remote topics and stored positions are named after ...`",
                "`KEY: offset syncs and heartbeats are named after ...`",
            ),
            meaning=("`source.cluster.alias` or `target.cluster.alias` differs from the alias of the cluster."),
            impact=UNAFFECTED,
            mend="For information only, if you want these names: MirrorMaker 2 uses the same names.",
            in_line=False,
        ),
        Message(
            "TW-FILE-14",
            "Two flows write offset syncs to the same topic",
            "warning",
            lines=("`flows A and B write offset syncs to the same topic, ...`",),
            meaning="Both targets have the same `target.cluster.alias`, or an empty alias.",
            impact=(
                "Clients of MirrorMaker 2 may translate offsets by the syncs of the wrong flow, so that groups skip "
                "or repeat records."
            ),
            mend="Give each flow its own alias, as in the line.",
            in_line=False,
        ),
        Message(
            "TW-FILE-15",
            "The flows of a cycle name remote topics differently",
            "error",
            lines=("`the flows ... call remote topics differently`",),
            meaning="The file has two separators or policies; MirrorMaker 2 would copy in a cycle.",
            impact=NOTHING_CHANGED,
            mend="Give all flows of the cycle the same `replication.policy.separator` and `.class`.",
            in_line=False,
        ),
        Message(
            "TW-FILE-16",
            "All flows to a cluster are off",
            "warning",
            lines=("`all flows to WEST are off; only heartbeats are written there`",),
            meaning=("`connect-mirror-maker` starts with a file without enabled flows, as MirrorMaker 2 does."),
            impact="The cluster receives heartbeats only.",
            mend="To copy topics, write `A->B.enabled = true`, and leave out blanks around `->`.",
            in_line=False,
        ),
        Message(
            "TW-FILE-17",
            "A client has the address of another cluster",
            "error",
            lines=(
                "`records would be written to ...`",
                "`records would be read from ...`",
                "`where topics and positions are looked for`",
            ),
            meaning="The settings of source or target name two clusters.",
            impact=NOTHING_CHANGED,
            mend=(
                "Correct `producer.override.bootstrap.servers` and `target.cluster.bootstrap.servers` of a connector, "
                "or `source.consumer.bootstrap.servers` and `source.cluster.bootstrap.servers`; of a flow "
                "`target.producer.` and `source.consumer.`."
            ),
            in_line=False,
        ),
        Message(
            "TW-FILE-18",
            "A connector has an unknown key",
            "warning",
            lines=("`connector C: KEY: an unknown key, ignored; ...`",),
            meaning="The key is misspelt, or unknown to every program; the default takes effect.",
            impact=UNAFFECTED,
            mend="Write the key that the line names.",
            in_line=False,
        ),
        Message(
            "TW-FILE-19",
            "Keys of a worker are ignored",
            "warning",
            lines=("`these keys are ignored here: KEYS`",),
            meaning="The worker's file has keys that only Kafka's worker knows.",
            impact=UNAFFECTED,
            mend=(
                "For information only; the [reference](configuration.md#file-of-a-connect-worker) has the replacements."
            ),
            in_line=False,
        ),
        Message(
            "TW-FILE-20",
            "A setting is lost in another form",
            "warning",
            lines=("`not converted: FILE:LINE: KEY: ...`",),
            meaning="The output form of `twinlog convert` lacks an equivalent of the setting.",
            impact="The written file lacks the setting; the running flow is unaffected.",
            mend="Leave the setting out, or choose another form.",
            look=("twinlog convert mm2.properties --format connectors",),
            in_line=False,
        ),
        Message(
            "TW-FILE-21",
            "A setting is probably a mistake",
            "warning",
            lines=("`FILE:LINE: KEY: ...`",),
            meaning=(
                "The file is legal, and a setting has an effect that its author hardly intended. The line names the "
                "key and the effect."
            ),
            impact="The flow runs with the setting as the line describes it.",
            mend=(
                "Correct the key in the file that the line names. `twinlog check FILE` prints the warnings without a "
                "run."
            ),
        ),
        Message(
            "TW-FILE-22",
            "A setting is wrong",
            "error",
            lines=("`FILE:LINE: KEY: ...; expected ...`",),
            meaning=(
                "A value or a key of the file is wrong. The line names the file, the line, the key, and the expected "
                "value."
            ),
            impact=NOTHING_CHANGED,
            mend=(
                "Correct the key, for example `east->west.enabled = true`, and run `twinlog check FILE` until the "
                "command prints no error."
            ),
        ),
    ),
)

_RELOAD = Area(
    name="RELOAD",
    title="Reading the file again",
    about=(
        "A running process reads its file again after SIGHUP or `twinlog reload`. A follower of Strimzi's resource "
        "reads the file each second."
    ),
    look=(
        "twinlog check mm2.properties",
        "twinlog reload mm2.properties --dry-run",
    ),
    messages=(
        Message(
            "TW-RELOAD-01",
            "The new version of the file is wrong",
            "error",
            lines=("`FILE: this version is wrong, the earlier version stays in effect ...`",),
            meaning=(
                "The new version of a resource or of a properties file has an error; twinlog keeps the last correct "
                "version."
            ),
            impact="The flows continue with the settings of the earlier version.",
            mend="The log lines before this message name the errors.",
        ),
        Message(
            "TW-RELOAD-02",
            "A changed key needs a restart",
            "warning",
            lines=(("`FILE:LINE: KEY = ...: needs a restart of this process, and stays as it was until then`"),),
            meaning="Only the start of a process reads this key.",
            impact="The flows continue with the earlier value of the key.",
            mend="Restart the process; see [which keys](configuration.md#how-to-read-the-tables).",
        ),
        Message(
            "TW-RELOAD-03",
            "A new flow waits for a restart",
            "warning",
            lines=(
                ("`FLOW starts with the next start of this process: KEY has changed as well, and needs a restart`"),
            ),
            meaning=(
                "The file enables a flow, and the flow would run with other connections or names than the running "
                "flows."
            ),
            impact="The new flow waits for the restart; all other flows continue.",
            mend="Restart the process, or undo the change that needs the restart.",
        ),
        Message(
            "TW-RELOAD-04",
            "Reading the file again failed for lack of threads",
            "warning",
            lines=("`reading FILE again failed: ...; ask once more`",),
            meaning="This user has reached the operating system's limit of threads.",
            impact="The flows continue with the settings of the earlier version.",
            mend="Raise the limit, and repeat the request.",
            look=(
                "ulimit -u",
                "twinlog reload mm2.properties",
            ),
        ),
        Message(
            "TW-RELOAD-05",
            "SIGHUP is ignored with --until-caught-up",
            "warning",
            lines=("`SIGHUP: a run that ends once all is copied keeps its settings`",),
            meaning="The process runs with `--until-caught-up`.",
            impact=UNAFFECTED,
            mend="For information only.",
        ),
        Message(
            "TW-RELOAD-06",
            "SIGHUP is ignored for a followed resource",
            "info",
            lines=("`the file is read every second, so SIGHUP is ignored`",),
            meaning="twinlog follows Strimzi's resource.",
            impact=UNAFFECTED,
            mend="For information only.",
            in_line=False,
        ),
        Message(
            "TW-RELOAD-07",
            "Requests of twinlog reload miss the process",
            "warning",
            lines=("`twinlog reload cannot ask this process by way of WEST, SIGHUP can: ...`",),
            meaning="The process lacks READ on the topic of reload requests.",
            impact=UNAFFECTED,
            mend="Grant the right that the line names, or use SIGHUP.",
        ),
        Message(
            "TW-RELOAD-08",
            "A process left the request unanswered",
            "warning",
            lines=("`HOST-PID runs or waits for FLOWS and was silent: ...`",),
            meaning=(
                "An answer to `twinlog reload`: the process has an earlier version, lacks a right on the topic, or "
                "hangs."
            ),
            impact="The flows of the silent process may still run with the earlier settings.",
            mend="Read the log of the process; send SIGHUP on its host.",
            in_line=False,
        ),
        Message(
            "TW-RELOAD-09",
            "Every process of these flows has ended",
            "warning",
            lines=("`every process that runs these flows, or waits for them, has ended`",),
            meaning="An answer to `twinlog reload`.",
            impact="The flows wait for a process.",
            mend="Start a process; at its start the process reads the file.",
            in_line=False,
        ),
        Message(
            "TW-RELOAD-10",
            "A changed key took effect",
            "info",
            lines=("`FILE:LINE: KEY = ...: taken over by FLOWS`",),
            meaning=(
                "twinlog [read the file again](running.md#changing-the-file-while-it-runs), and the flows use the new "
                "value."
            ),
            impact="The flow pauses for a second or two at most, and continues with the new value.",
            mend="For information only.",
            in_line=False,
        ),
        Message(
            "TW-RELOAD-11",
            "The file was read again",
            "info",
            lines=(
                "`audit: FILE was read again for ...; taken over: KEYS; needs a restart: KEYS`",
                "`FILE was read again for ..., and has nothing new for the flows of this process`",
            ),
            meaning=(
                "The line names the sender of the reload request, and the changed keys. Since the last reading, all "
                "keys of these flows have kept their values."
            ),
            impact=UNAFFECTED,
            mend=(
                "For information only. The process reads the file of its start command: compare that path with the "
                "changed file."
            ),
            in_line=False,
        ),
    ),
)

PAGE = Page(
    "files",
    "Files and reloading",
    (
        _FILE,
        _RELOAD,
    ),
)
