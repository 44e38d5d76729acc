"""`twinlog check`: reads a configuration and prints its problems, before any contact with a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from twinlog.config.connector import ConnectorFile, build_connector
from twinlog.config.differences import differences
from twinlog.config.file_kind import OFFSET_FILE, FileKind, kind_of
from twinlog.config.keys.key import Release
from twinlog.config.load import load_file
from twinlog.config.properties import parse_properties
from twinlog.config.queries import check_queries
from twinlog.config.text.explain import explain as explain_key
from twinlog.config.text.providers import UnknownProviders
from twinlog.config.worker import load_worker, worker_of
from twinlog.console.mistake_output import MistakeOutput, print_mistakes
from twinlog.console.options import Secrets, Was, kafka_release
from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigNote, ConfigProblem, ConfigWarning, Mistake, MistakeKind
from twinlog.settings.flow import CustomClass, ExactlyOnce, FlowSettings
from twinlog.settings.per_topic import PerTopic
from twinlog.settings.transform import TransformSettings
from twinlog.settings.worker import WorkerSettings

_WRITES: Mapping[ExactlyOnce, str] = {
    "disabled": "without transactions",
    "preparing": "without transactions, ready for processes that use them",
    "enabled": "in transactions, together with positions",
}

_REFERENCE = re.compile(r"\$\{[^{}:]+:[^{}]*\}")
_ANY_CLUSTER = "its-own-cluster:9092"

_ANY_WORKER = f"""\
bootstrap.servers = {_ANY_CLUSTER}
{OFFSET_FILE} = offsets
key.converter = org.apache.kafka.connect.converters.ByteArrayConverter
value.converter = org.apache.kafka.connect.converters.ByteArrayConverter
"""


def summary(flow: FlowSettings) -> list[str]:
    """Lines about a flow of a dedicated MirrorMaker 2."""
    return [f"flow {flow.name}", *_ends(flow), *_topics(flow), *_groups(flow), *_copying(flow)]


def connector_summary(flow: FlowSettings, *, idle: bool) -> list[str]:
    """Lines about a connector, which does a part of these actions; an `idle` connector is switched off."""
    off = " (switched off)" if idle else ""
    lines = [f"connector {flow.connector_name}: {flow.kind} {flow.source}->{flow.target}{off}"]
    if flow.kind == "source":
        return [*lines, *_ends(flow), *_topics(flow), *_copying(flow)]
    if flow.kind == "checkpoint":
        return [*lines, *_ends(flow), *_groups(flow)]
    beats = _every("written", flow.emit_heartbeats_interval_s)
    return [*lines, _ends(flow)[-1], f"  heartbeats {beats}"]


def _ends(flow: FlowSettings) -> list[str]:
    return [
        f"  from       {', '.join(flow.consumer.client.bootstrap_servers)}",
        f"  to         {', '.join(flow.producer.client.bootstrap_servers)}",
    ]


def _topics(flow: FlowSettings) -> list[str]:
    return [
        f"  topics     {_chosen(flow.topics, flow.topic_filter_class)}; they {_renamed(flow)}",
        f"  except     {_left_out(flow.topics_exclude, flow.topic_filter_class)}",
        f"  new topics {_every('looked for', flow.refresh_topics_interval_s)}",
        f"  settings   {_every('kept in step', flow.sync_topic_configs_interval_s)}",
        f"  ACLs       {_every('kept in step', flow.sync_topic_acls_interval_s)}",
    ]


def _groups(flow: FlowSettings) -> list[str]:
    translated = _every("translated", flow.emit_checkpoints_interval_s)
    there = f"committed on {flow.target}"
    committed = f"not {there}" if flow.sync_group_offsets_interval_s is None else f"{there} at once"
    return [
        f"  groups     {_chosen(flow.groups, flow.group_filter_class)}",
        f"  except     {_left_out(flow.groups_exclude, flow.group_filter_class)}",
        f"  offsets    {translated}; {committed}",
    ]


def _copying(flow: FlowSettings) -> list[str]:
    return [
        f"  tasks      at most {flow.tasks_max}",
        f"  positions  in {flow.positions_topic} on {flow.target}",
        *_starts(flow),
        f"  writes     {_WRITES[flow.exactly_once]}",
        *_transforms(flow.transform),
        *([f"  at offsets {_by_topic(flow.offsets)}"] if flow.may_keep_offsets else []),
        *([f"  proof      {_proof(flow)}"] if any(flow.proof.values) else []),
        f"  on a gap   {_by_topic(flow.gap_policy)}",
        f"  oversized  {_by_topic(flow.oversized_record_policy)}",
        f"  refused    {_by_topic(flow.refused_record_policy)}",
        f"  renamed    {flow.renamed_topic_policy} when topics were copied to other names before",
    ]


def _starts(flow: FlowSettings) -> list[str]:
    """The first offsets of topics, if some begin after their earliest record."""
    default = flow.start.default or flow.consumer.auto_offset_reset
    own = [f"{rule.pattern}: {rule.value or flow.consumer.auto_offset_reset}" for rule in flow.start.rules]
    if default.kind == "earliest" and not own:
        return []
    return [f"  begins     {'; '.join([str(default), *own])}; topics that appear later at their earliest record"]


def _transforms(transform: TransformSettings | None) -> list[str]:
    if transform is None:
        return []
    failed = "holds its partition" if transform.tolerance == "none" else f"is {_skipped(transform)}"
    return [f"  transforms {transform.steps}; a record that fails {failed}"]


def _by_topic(policy: PerTopic[Any]) -> str:
    r"""A policy, and the topics with a policy of their own: `hold, skip for logs\..*`."""
    return ", ".join((policy.default, *(f"{rule.value} for {rule.pattern}" for rule in policy.rules)))


def _proof(flow: FlowSettings) -> str:
    """The proven topics, and the consequence of a difference: `yes, no for logs; on a difference hold`."""
    words = flow.proof.map(lambda proves: "yes" if proves else "no")
    return f"{_by_topic(words)}; on a difference {_by_topic(flow.difference_policy)}"


def _skipped(transform: TransformSettings) -> str:
    topic = transform.dead_letter_topic
    return f"written to {topic}" if topic else "skipped"


def _renamed(flow: FlowSettings) -> str:
    if flow.policy_class is not None:
        return f"are named by {flow.policy_class.path}"
    return "keep their names" if flow.keeps_names else f"become {flow.source_name}{flow.separator}<topic>"


def _every(work: str, seconds: float | None) -> str:
    return f"not {work}" if seconds is None else f"{work} every {seconds:g} s"


def _chosen(names: tuple[str, ...], own: CustomClass | None) -> str:
    return (", ".join(names) or "(none)") if own is None else f"those that {own.path} accepts"


def _left_out(names: tuple[str, ...], own: CustomClass | None) -> str:
    return (", ".join(names) or "(none)") if own is None else "all other names"


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome of a check: lines for people about the flows, and warnings."""

    lines: Sequence[str]
    warnings: Sequence[Mistake] = ()


def check_mirror(path: Path, clusters: Sequence[str] | None, was: Release | None) -> Checked:
    """The flows of a dedicated MirrorMaker 2. Raises ConfigError with every problem.

    With `was` notes name each difference from MirrorMaker 2 of that release that the file has.
    """
    loaded = load_file(path, clusters)
    config = loaded.config
    unchecked = check_queries(config.flows, path)
    notes = () if was is None else differences(loaded, was)
    lines = [line for flow in config.flows if flow.enabled for line in summary(flow)]
    beating = [flow.name for flow in config.flows if not flow.enabled]
    if beating:
        lines += ["not enabled, heartbeats only", f"  {', '.join(beating)}"]
    return Checked(lines, [*config.warnings, *unchecked, *notes])


def check_worker(worker: Path | None, connectors: Sequence[Path]) -> Checked:
    """The actions of a worker and its connectors.

    If the file of a worker is missing, connectors are checked as any worker would; the values of references are then
    unknown, and a note names the first reference. The same counts beside a worker's file with problems. Raises
    ConfigError with the problems of all files.
    """
    from twinlog.console.flow_files import read_connectors  # noqa: PLC0415 - only who checks connectors waits for it

    known = worker_of(parse_properties(_ANY_WORKER, "(any worker)"), "(any worker)", distributed=False)
    config = replace(known, providers=UnknownProviders())
    problems: list[ConfigProblem] = []
    warnings: list[ConfigWarning] = []
    if worker is not None:
        try:
            config = load_worker(worker)
        except ConfigError as error:
            problems += error.problems
            warnings += error.warnings
    warnings += config.warnings
    found: list[ConnectorFile] = []
    try:
        found, of_connectors = read_connectors(connectors, config, nameless=True)
        warnings += of_connectors
    except ConfigError as error:
        problems += error.problems
        warnings += error.warnings
    if problems:
        raise ConfigError(problems, _of_this_cluster(warnings))
    lines = [] if worker is None else _worker(config.settings)
    flows = [build_connector(one.name, one.config, config) for one in found]
    for flow in flows:
        lines += connector_summary(flow.settings, idle=flow.idle)
    files = [path for path in (worker, *connectors) if path is not None]
    unchecked = check_queries([flow.settings for flow in flows], files[0], files[1:])
    notes = [note for path in connectors for note in _references(path)] if worker is None else []
    return Checked(lines, [*_of_this_cluster(warnings), *unchecked, *notes])


def _references(path: Path) -> Iterator[ConfigNote]:
    """A note about the first reference of a connector that is checked without its worker."""
    for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
        if (found := _REFERENCE.search(line)) is not None:
            text = (
                f"the value of {found[0]} is unknown, because config.providers is in the worker's file; to check the "
                f"value, too, run: twinlog check connect-distributed.properties {path}"
            )
            yield ConfigNote(str(path), number, "", text, kind=MistakeKind.UNDECLARED)
            return


def _of_this_cluster(warnings: Sequence[ConfigWarning]) -> list[ConfigWarning]:
    """Remove the warnings about the cluster of an unknown worker."""
    return [warning for warning in warnings if _ANY_CLUSTER not in warning.text]


def check_resource(path: Path, secrets: Path | None) -> Checked:
    """The flows of Strimzi's resource. Raises ConfigError with its problems."""
    from twinlog.config.strimzi.load import load_resource  # noqa: PLC0415 - YAML is slow to import

    config = load_resource(path, secrets)
    lines = _worker(config.worker.settings)
    for flow, planned in zip(config.flows, config.resource.connectors, strict=True):
        lines += connector_summary(flow.settings, idle=flow.idle)
        if planned.state != "RUNNING":
            lines.append(f"  state      {planned.state.lower()}")
    return Checked(lines, [*config.warnings, *check_queries([flow.settings for flow in config.flows], path)])


def _worker(worker: WorkerSettings) -> list[str]:
    group = worker.group
    lines = [
        "standalone worker" if group is None else f"worker of group {group.group_id}",
        f"  cluster    {', '.join(worker.client.bootstrap_servers)}",
        f"  listens    {', '.join(f'{one.scheme}://{one.host}:{one.port}' for one in worker.rest.listeners)}",
    ]
    if group is None:
        lines.append(f"  offsets    in the file {worker.offset_file}")
    else:
        topics = (group.config_storage, group.offset_storage, group.status_storage)
        lines.append(f"  state      in {', '.join(topic.name for topic in topics)}")
    return lines


def check(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A MirrorMaker 2 properties file, Strimzi's KafkaMirrorMaker2, or the file of a Connect worker or "
            "of a connector.",
            show_default=False,
        ),
    ],
    more: Annotated[
        list[Path] | None,
        typer.Argument(metavar="CONNECTOR", help="Connectors of the worker, properties or JSON.", show_default=False),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Print the value of this key in each flow, and the line that sets the key."),
    ] = None,
    clusters: Annotated[
        list[str] | None,
        typer.Option(metavar="ALIAS ...", help="Check only flows to these clusters."),
    ] = None,
    secrets: Secrets = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail also for warnings.")] = False,
    output: Annotated[
        MistakeOutput,
        typer.Option(
            "-o",
            "--output",
            help="Print lines for people and editors (text), a list of objects (json), or annotations of a GitHub "
            "workflow (github).",
        ),
    ] = MistakeOutput.TEXT,
    was: Was = None,
) -> None:
    """Print the mistakes of a file with their lines, and the topics and settings of each flow. Contacts no cluster.

    A file with warnings runs; a file with errors is refused. `twinlog explain ID` describes a mistake. The check of
    transform.sql takes some seconds, because Spark reads the query.

    Exit codes: 0 the file runs, perhaps with warnings; 1 the file has errors, with --strict also warnings; 2 the
    command line is wrong

    Example: twinlog check mm2.properties

    Example: twinlog check mm2.properties --strict --output github

    Example: twinlog check mm2.properties --was 3.9

    Example: twinlog check mm2.properties --explain topics.exclude

    Example: twinlog check connect-distributed.properties source.json

    Example: twinlog check mirror.yaml --secrets /mnt/secrets
    """
    # connect-mirror-maker's `--clusters a b c` passes b and c as arguments of their own.
    wanted = None if clusters is None else [*clusters, *map(str, more or [])]
    kind = kind_of(path)
    release = kafka_release(was)
    if kind is not FileKind.MIRROR and (explain is not None or clusters is not None or was is not None):
        raise typer.BadParameter(f"{path} is no file of MirrorMaker 2", param_hint="--explain, --clusters and --was")
    if more and (kind is FileKind.RESOURCE or (kind is FileKind.MIRROR and clusters is None)):
        raise typer.BadParameter(
            f"unexpected argument {str(more[0])!r}: connectors follow the file of a Connect worker, and {path} has "
            "none of the keys of that file, for example config.storage.topic"
        )
    try:
        if explain is not None:
            for line in explain_key(path, explain):
                typer.echo(str(line))
            return
        if kind is FileKind.MIRROR:
            found = check_mirror(path, wanted, release)
        elif kind is FileKind.RESOURCE:
            found = check_resource(path, secrets)
        else:
            connectors = more or []
            found = check_worker(*((path, connectors) if kind is FileKind.WORKER else (None, [path, *connectors])))
    except ConfigError as error:
        print_mistakes((*error.warnings, *error.problems), output)
        raise typer.Exit(1) from None
    if output is MistakeOutput.TEXT:
        typer.echo("\n".join(found.lines))
    print_mistakes(found.warnings, output)
    if strict and any(mistake.level == "warning" for mistake in found.warnings):
        raise typer.Exit(1)
