"""The vocabulary of commands: the options that several commands share, each with a single name and meaning.

`--from` and `--to` are clusters, `--since` and `--until` moments, `--from-offset` and `--to-offset` offsets.
`--topic` and `--group` may be repeated. `--flow` takes `east:west`, which needs no quotes in a shell, or `east->west`.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from twinlog.config.differences import NEWEST, OLDEST
from twinlog.config.keys.key import Release
from twinlog.config.strimzi import DIRECTORY_VARIABLE
from twinlog.console.command_log import print_warning_line
from twinlog.console.data_format import DataFormat
from twinlog.model.amounts import read_moment, shown_moment
from twinlog.settings.flow import FlowSettings
from twinlog.spark.submitted import is_submitted

FILE_HELP = "A MirrorMaker 2 properties file, Strimzi's KafkaMirrorMaker2, or the file of a Connect worker."
CONNECTOR_HELP = "Connectors of the worker, properties or JSON."

FlowFile = Annotated[Path, typer.Argument(metavar="FILE", help=FILE_HELP, show_default=False)]
FileOrWorker = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help=f"{FILE_HELP} With --url the worker's file, or nothing.", show_default=False),
]
WorkerUrl = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="Read the connectors from the REST API of any worker of the group, in place of FILE. Login: "
        "TWINLOG_CONNECT_USER and TWINLOG_CONNECT_PASSWORD. TLS: TWINLOG_CONNECT_CACERT, TWINLOG_CONNECT_CERT, "
        "TWINLOG_CONNECT_KEY.",
        show_default=False,
    ),
]
ClusterLogins = Annotated[
    Path | None,
    typer.Option(
        "--client-config",
        metavar="PATH",
        help="With --url: take logins and addresses of clusters from this properties file, for example "
        "west.sasl.jaas.config.",
        show_default=False,
    ),
]
ConnectorFiles = Annotated[
    list[Path] | None, typer.Argument(metavar="CONNECTOR", help=CONNECTOR_HELP, show_default=False)
]
AnyFlow = Annotated[
    str | None,
    typer.Option(
        "--flow",
        metavar="A:B",
        help="Choose a flow, for example east:west. Default: all flows of FILE.",
        show_default=False,
    ),
]
OneFlow = Annotated[
    str | None,
    typer.Option(
        "--flow",
        metavar="A:B",
        help="Choose the flow, for example east:west. Required if FILE has several flows.",
        show_default=False,
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC",
        help="Choose source topics by name, or by a Java regular expression for the whole name; may be repeated.",
        show_default=False,
    ),
]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        metavar="GROUP",
        help="Choose a consumer group, even if the flow excludes the group; may be repeated.",
        show_default=False,
    ),
]
Partitions = Annotated[
    list[int] | None,
    typer.Option(
        "--partition",
        metavar="NUMBER",
        min=0,
        help="Choose the partition with this number in each topic; may be repeated.",
        show_default=False,
    ),
]
Output = Annotated[DataFormat, typer.Option("-o", "--output", help="Print the result in this form on stdout.")]
AnswerTimeout = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Wait for a silent cluster for this time."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the changes, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the question before a change.")]
Everything = Annotated[bool, typer.Option("--all", help="Print every line of long lists.")]

Secrets = Annotated[
    Path | None,
    typer.Option(
        "--secrets",
        metavar="DIR",
        envvar=DIRECTORY_VARIABLE,
        exists=True,
        file_okay=False,
        help="Read Secrets and ConfigMaps of Strimzi's resource from DIR/NAME/KEY, as Kubernetes mounts them. Default: "
        "variables TWINLOG_SECRET_NAME_KEY.",
        show_default=False,
    ),
]

WholeComparison = Annotated[
    bool, typer.Option("--full", help="Compare every record in Spark's tasks, in place of a sample.")
]
SampleSize = Annotated[
    int,
    typer.Option(
        min=10,
        metavar="RECORDS",
        help="Compare this many records in each range: at the start and the end of each partition, at two places "
        "between, and at each place that looks wrong.",
    ),
]
SAMPLE_RECORDS = 1_000
"""The default size of a range, in source offsets."""

Was = Annotated[
    str | None,
    typer.Option(
        "--was",
        metavar="RELEASE",
        help="Also note each effect that differs from MirrorMaker 2 of this Kafka release, for example 3.9.",
        show_default=False,
    ),
]

MOMENT_HELP = "ms since 1970, or ISO 8601 as 2026-11-20T08:00:00Z; the default zone is UTC."
SECONDS_BELOW = 10**11
"""As milliseconds, a smaller number means March 1973 or earlier; as seconds it means a moment near now."""


def moment_ms(text: str | None, option: str, forms: str = MOMENT_HELP) -> int | None:
    """Milliseconds since 1970; None if the text is None. Raises typer.BadParameter.

    An @ may precede the number, as `twinlog replay` needs it: there a plain number is an offset. `forms` describes the
    accepted forms.
    """
    if text is None:
        return None
    digits = text.strip().removeprefix("@")
    try:
        moment = read_moment(digits if digits.isdecimal() else text)
    except OverflowError as error:
        raise typer.BadParameter(f"{error}; write {forms}", param_hint=option) from None
    if moment is None:
        raise typer.BadParameter(f"{text!r} is an unknown moment; write {forms}", param_hint=option)
    if digits.isdecimal() and 0 < moment < SECONDS_BELOW:
        note = f"{option} {text} is {shown_moment(moment)}: numbers are milliseconds since 1970"
        print_warning_line(f"TW-USE-05: {note}")
    return moment


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|min|h)")
_UNIT_S = {"s": 1, "m": 60, "min": 60, "h": 3600}


def duration_s(text: str) -> float | None:
    """The seconds of a time as `30s`, `15m` or `1h`; None for a text of another form."""
    found = _DURATION.fullmatch(text.strip())
    return None if found is None else float(found[1]) * _UNIT_S[found[2]]


def kafka_release(was: str | None) -> Release | None:
    """The release of `--was`, for example 3.9 or 3.9.1."""
    if was is None:
        return None
    found = re.fullmatch(r"(\d+)\.(\d+)(?:\.\d+)?", was.strip())
    release = None if found is None else (int(found[1]), int(found[2]))
    if release is None or not OLDEST <= release <= NEWEST:
        known = f"a release from {'.'.join(map(str, OLDEST))} to {'.'.join(map(str, NEWEST))}, for example 3.9"
        raise typer.BadParameter(f"{was!r}; write {known}", param_hint="--was")
    return release


def at_work(flows: Sequence[FlowSettings]) -> list[FlowSettings]:
    """The flows whose run does more than write heartbeats: enabled flows, and every connector."""
    return [flow for flow in flows if flow.enabled or flow.kind is not None]


def between(flows: Sequence[FlowSettings], source: str, target: str) -> list[FlowSettings]:
    """The flows at work that lead from `source` to `target`: a single flow of a mirror's file, every connector of a
    worker."""
    return [flow for flow in at_work(flows) if (flow.source, flow.target) == (source, target)]


def chosen(
    flows: Sequence[FlowSettings],
    name: str | None,
    *,
    fits: Callable[[FlowSettings], bool] = lambda _: True,
    doing: str = "",
    idle: bool = False,
) -> list[FlowSettings]:
    """The flows at work that `fits` lets through; with `name` the flow of this name, or the flows with these ends.

    `east->west` is a flow of a mirror's file, and every connector between the two clusters; a connector is known by its
    own name, too. `doing` describes `fits` in messages. With `idle` a named flow may be disabled, as it may have run
    before. Raises BadParameter that names the flows there are.
    """
    found = [flow for flow in (flows if idle and name is not None else at_work(flows)) if fits(flow)]
    what = f"flow {doing}".strip()
    if not found:
        raise typer.BadParameter(f"it has no {what} that is enabled", param_hint="FILE")
    if name is None:
        return found
    named = _named(found, name) or _named(found, _with_arrow(name))
    if not named:
        _require_quotes(name)
        names = ", ".join(flow.as_option for flow in found)
        raise typer.BadParameter(
            f"there is no {what} {name}; the file has {names}{_why(flows, _with_arrow(name))}", param_hint="--flow"
        )
    return named


def _named(flows: Sequence[FlowSettings], name: str) -> list[FlowSettings]:
    return [flow for flow in flows if name in (flow.name, ends(flow))]


def _with_arrow(name: str) -> str:
    """`east:west` as `east->west`; any other name stays."""
    source, colon, target = name.partition(":")
    return f"{source}->{target}" if colon and source and target else name


def _require_quotes(name: str) -> None:
    """Raise BadParameter for `--flow east->west` without quotes: a shell writes the output of `--flow east-` to a file
    `west`, which it empties first."""
    if not name.endswith("-") or len(name) < 2:
        return
    source, file = name[:-1], redirected_to()
    emptied = "a file" if file is None else f"the file {file.name}"
    target = "TARGET" if file is None else file.name
    raise typer.BadParameter(
        f"twinlog got {name!r}: the shell takes > for a redirection, and has just emptied {emptied}. Write "
        f"--flow {source}:{target}, or quote it: --flow '{source}->{target}'",
        param_hint="--flow",
    )


def redirected_to() -> Path | None:
    """The file that the shell has redirected the output of this process to; None if the output is another thing."""
    try:
        if not stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode):
            return None
        return Path(os.readlink(f"/proc/self/fd/{sys.stdout.fileno()}"))
    except (OSError, ValueError):
        # Only Linux has /proc, and a test has an output without a descriptor.
        return None


_COMMA = re.compile(r",(?![^{}]*\})")


def topic_expressions(given: Sequence[str] | None) -> tuple[str, ...]:
    """The Java expressions of `--topic`. A comma outside of braces separates two expressions, as in the key `topics`.

    >>> topic_expressions(["orders, pay.*", "a{1,2}"])
    ('orders', 'pay.*', 'a{1,2}')
    """
    return tuple(part.strip() for text in given or () for part in _COMMA.split(text) if part.strip())


def single_flow(found: Sequence[FlowSettings]) -> FlowSettings:
    """The only flow of those found. Raises BadParameter for several."""
    if len(found) > 1:
        options = " or ".join(f"--flow {flow.as_option}" for flow in found)
        raise typer.BadParameter(f"FILE has several flows; add {options}", param_hint="--flow")
    return found[0]


def ends(flow: FlowSettings) -> str:
    """`source->target`."""
    return f"{flow.source}->{flow.target}"


def _why(flows: Sequence[FlowSettings], name: str) -> str:
    """The reason why a flow that the file could have is missing among these flows."""
    idle = any(name == flow.name and not flow.enabled and flow.kind is None for flow in flows)
    return f"; {name} has heartbeats only, without {name}.enabled = true" if idle else ""


Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Run on this Spark master. Default: Spark in this process, local[N].", show_default=False
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Set this setting of Spark; may be repeated.", show_default=False),
]


def spark_options(master: str | None, conf: list[str] | None) -> tuple[str | None, dict[str, str]]:
    """Spark's master, however it was given, and the other settings: much depends on whether it is local.

    Raises typer.BadParameter for a malformed setting, for two masters, and for any setting if spark-submit has its own.
    """
    if is_submitted():
        for option, value in (("--master", master), ("--conf", conf)):
            if value:
                raise typer.BadParameter(
                    f"spark-submit has started twinlog, and its Spark with it: give {option} to spark-submit, before "
                    "the launcher",
                    param_hint=option,
                )
    settings = _settings(conf or [])
    return _master(master, settings), settings


def _master(named: str | None, settings: dict[str, str]) -> str | None:
    given = settings.pop("spark.master", None)
    if None not in (named, given) and named != given:
        raise typer.BadParameter(
            f"spark.master={given} beside --master {named}: give only a single master", param_hint="--conf"
        )
    return named if given is None else given


def _settings(given: list[str]) -> dict[str, str]:
    settings = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(
                f"{one!r}: expected KEY=VALUE, as in spark.driver.memory=512m", param_hint="--conf"
            )
        settings[key.strip()] = value.strip()
    return settings
