"""Messages about files and reloading."""

from __future__ import annotations

from twinlog.ops.explain.message import NOTHING_TO_DO, UNAFFECTED, Area, Message, Page
from twinlog.ops.explain.pages.files_and_flows import FILES_AND_FLOWS
from twinlog.ops.explain.pages.keys_and_values import KEYS_AND_VALUES

_FILE = Area(
    name="FILE",
    title="Configuration files",
    about="`twinlog check`, and every command that reads the file, prints these messages.",
    look=(
        "twinlog check mm2.properties",
        "twinlog check mm2.properties --explain 'east->west.topics'",
    ),
    escalate=(
        "If MirrorMaker 2 accepts a setting that twinlog refuses, give the line of the file and the message to the "
        "people who maintain twinlog."
    ),
    messages=(*KEYS_AND_VALUES, *FILES_AND_FLOWS),
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
            meaning="The new version of the resource or properties file has an error.",
            impact="The flows continue with the last correct version.",
            mend="Correct the errors in the log lines before this message.",
        ),
        Message(
            "TW-RELOAD-02",
            "A changed key needs a restart",
            "warning",
            lines=(
                "`FILE:LINE: KEY = ...: needs a restart of this process, and stays as it was until then`",
                "`FILE:LINE: KEY = ...: NEEDS A RESTART`",
            ),
            meaning="Only the start of a process reads this key. The second line is from `twinlog reload`.",
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
            meaning="The new flow would run with other connections or names than the running flows.",
            impact="The new flow waits for the restart; all other flows continue.",
            mend="Restart the process, or undo the change that needs the restart.",
        ),
        Message(
            "TW-RELOAD-04",
            "Reading the file again failed for lack of threads",
            "warning",
            lines=("`reading FILE again failed: ...; ask once more`",),
            meaning="This user has reached the limit of threads.",
            impact="The flows continue with the earlier settings.",
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
            meaning="",
            impact=UNAFFECTED,
            mend=NOTHING_TO_DO,
        ),
        Message(
            "TW-RELOAD-06",
            "SIGHUP is ignored for a followed resource",
            "info",
            lines=("`the file is read every second, so SIGHUP is ignored`",),
            meaning="",
            impact=UNAFFECTED,
            mend=NOTHING_TO_DO,
            in_line=False,
        ),
        Message(
            "TW-RELOAD-07",
            "Requests of twinlog reload miss the process",
            "warning",
            lines=("`twinlog reload cannot ask this process by way of WEST, SIGHUP can: ...`",),
            meaning="The process lacks READ on the topic of reload requests.",
            impact=UNAFFECTED,
            mend="Grant the right in the line, or use SIGHUP.",
        ),
        Message(
            "TW-RELOAD-08",
            "A process left the request unanswered",
            "warning",
            lines=("`HOST-PID runs or waits for FLOWS and was silent: ...`",),
            meaning="From `twinlog reload`: the process has an earlier version, lacks a right on the topic, or hangs.",
            impact="The flows of this process may still run with the earlier settings.",
            mend="Read the log of the process; send SIGHUP on its host.",
        ),
        Message(
            "TW-RELOAD-09",
            "Every process of these flows has ended",
            "warning",
            lines=("`every process that runs these flows, or waits for them, has ended`",),
            meaning="From `twinlog reload`.",
            impact="The flows wait for a process.",
            mend="Start a process: it reads the file at its start.",
        ),
        Message(
            "TW-RELOAD-10",
            "A changed key took effect",
            "info",
            lines=("`FILE:LINE: KEY = ...: taken over by FLOWS`",),
            meaning="twinlog [read the file again](running.md#reload-the-file).",
            impact="The flow pauses for a second or two at most.",
            mend=NOTHING_TO_DO,
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
            meaning="The line names the sender of the request and the changed keys.",
            impact=UNAFFECTED,
            mend=(
                "If a changed key is missing in the line, compare the changed file's path with the path in the start "
                "command."
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
