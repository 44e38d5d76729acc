"""Messages about options, files that a command writes, and the end of a command."""

from __future__ import annotations

from twinlog.ops.explain.message import NOTHING_CHANGED, Area, Message, Page

_USE = Area(
    name="USE",
    title="The command line",
    about="A command prints these messages on stderr. Exit code 2 means a wrong option.",
    look=("twinlog --help",),
    messages=(
        Message(
            "TW-USE-01",
            "An option or an argument is wrong",
            "error",
            lines=(
                "`Error: Invalid value for ...: there is no flow A->B; the file has ...`",
                "`Error: Invalid value for ...: TEXT is an unknown moment; write ...`",
                "`Error: No such option: ...`",
                "`Error: OPTION is an unknown option, and FILE is an argument without an option; did you mean: ...`",
                "`Error: FILE is a file, and a command comes first; did you mean: ...`",
                "`Error: TOPIC is no file, and FILE comes first; did you mean: ...`",
            ),
            meaning="The command line has an unknown option, a wrong value, or options that exclude each other.",
            impact=NOTHING_CHANGED,
            mend="Correct the option that the line names; `--help` lists the options of the command.",
        ),
        Message(
            "TW-USE-02",
            "An output file cannot be written",
            "error",
            lines=(
                "`FILE exists; DIR is as before`",
                "`FILE exists, and nothing was written; remove it, or choose another --output-dir`",
                "`FILE is unwritable: ...; name another file with --html`",
            ),
            meaning="The file exists already, or the user lacks the right to write it, or the disk is full.",
            impact="The file is missing. The clusters are unaffected.",
            mend="Remove the file, or name another file or directory.",
        ),
        Message(
            "TW-USE-03",
            "A signal has ended the command",
            "error",
            lines=("`ended by SIGTERM`",),
            meaning="Ctrl-C (SIGINT) or SIGTERM has ended the command before its result; the exit code is 4.",
            impact="Records and consumer groups are unaffected, unless the line names a step that was done before.",
            mend="Run the same command again.",
        ),
        Message(
            "TW-USE-04",
            "The command would change nothing",
            "error",
            lines=("`these topics are paused already, so the command was dropped`",),
            meaning="The topics or partitions have the wanted state already.",
            impact=NOTHING_CHANGED,
            mend="Look at the present state with `twinlog topics list`.",
            look=("twinlog topics list mm2.properties",),
        ),
        Message(
            "TW-USE-05",
            "A moment is before 1974",
            "warning",
            lines=("`--since 1700000000 is ...: numbers are milliseconds since 1970`",),
            meaning="The number of the option has so few digits that it probably counts seconds.",
            impact="The command begins or ends at a moment soon after 1970.",
            mend="Write milliseconds, for example 1700000000000, or a date as 2026-11-20T08:00:00Z.",
        ),
        Message(
            "TW-USE-06",
            "The command failed",
            "error",
            lines=("`twinlog: ...`",),
            meaning="The command ended with the error of the line. The cause has no id of its own.",
            impact="The result is missing or incomplete.",
            mend="Follow the line, and run the command again.",
        ),
        Message(
            "TW-USE-07",
            "An id or a line is unknown",
            "error",
            lines=(
                "`TW-GAP-99 is an unknown id; near it are ...`",
                "`... is neither an id nor an alert; did you mean ...?`",
                "`... neither a known id (TW-AREA-NN) nor the words of a known message`",
            ),
            meaning="`twinlog explain` has no message with this id or these words.",
            impact=NOTHING_CHANGED,
            mend="`twinlog explain` without an id lists all messages.",
            look=("twinlog explain",),
        ),
        Message(
            "TW-USE-08",
            "A canary would touch the mirror",
            "error",
            lines=(
                "`the alias ALIAS is taken: the file knows a cluster of this name, and the canary would write to ...`",
            ),
            meaning="With these options the canary would write where MirrorMaker 2 or a flow of the file works.",
            impact=NOTHING_CHANGED,
            mend="Choose the option that the line names; see [canary](canary.md).",
            look=("twinlog canary --help",),
        ),
    ),
)

PAGE = Page("command-line", "The command line", (_USE,))
