"""From the path of a MirrorMaker 2 properties file to its flows, with warnings about settings and cycles of topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path

from twinlog.config.console import read_console
from twinlog.config.file_kind import FileKind, is_resource, require_kind
from twinlog.config.flow.flow import build_flow
from twinlog.config.flow.shared_topics import SHARED_TOPICS, SharedTopics
from twinlog.config.flow.warnings import (
    warn_of_lost_overrides,
    warn_of_returns,
    warn_of_shared_syncs,
)
from twinlog.config.keys.key import UnknownKeys
from twinlog.config.keys.scope import SourceAndTarget
from twinlog.config.keys.table import CONNECTOR, PROCESS
from twinlog.config.properties import read_properties
from twinlog.config.text.config_reader import ConfigReader, Problems, read_fields
from twinlog.config.text.entries import ParsedFile, parse_file
from twinlog.config.text.precedence import FlowLayers, resolve_flow
from twinlog.config.worker import read_metrics
from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigProblem, ConfigWarning, MistakeKind
from twinlog.model.types import Alias
from twinlog.settings.flow import FlowSettings
from twinlog.settings.worker import DriverListener, MetricsSettings, ServedConsole


@dataclass(frozen=True, slots=True)
class MirrorConfig:
    """The flows to run, all aliases of the file, and warnings for its author.

    The enabled flows come first. After them comes a flow with `enabled=False` for each remaining pair of clusters with
    heartbeats: it writes heartbeats to its target and leaves its source alone. `all_enabled` are the enabled flows of
    the file in its order, including flows that `--clusters` leaves to another process; of these, only names, topics and
    policy are reliable. With `bridge` a process beside the driver copies while Spark has no task.
    """

    flows: tuple[FlowSettings, ...]
    clusters: tuple[Alias, ...]
    warnings: tuple[ConfigWarning, ...]
    all_enabled: tuple[FlowSettings, ...] = ()
    bridge: bool = True
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    driver: DriverListener = field(default_factory=DriverListener)
    console: ServedConsole = field(default_factory=ServedConsole)


def load(
    path: str | Path,
    clusters: Sequence[str] | None = None,
    *,
    unknown_keys: UnknownKeys = "fail",
    secrets: Path | None = None,
) -> MirrorConfig:
    """The flows of the file at `path`; with `clusters`, only the flows with a target among them.

    The file is MirrorMaker 2's properties, or Strimzi's resource `KafkaMirrorMaker2`, of which each mirror is a flow.
    The Secrets that a resource names are in the directory `secrets`, or in the directory of TWINLOG_SECRETS_DIR. The
    enabled flows come first, then the flows that only write heartbeats. `unknown_keys` counts if the file lacks
    `twinlog.unknown.keys`. Raises ConfigError with every problem found. Reads only this file, the targets of its
    `${...}` references, and the key stores and Python classes that it names, before any contact with a cluster.
    """
    return load_file(path, clusters, unknown_keys=unknown_keys, secrets=secrets).config


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file after reading: its flows, and its parsed entries."""

    config: MirrorConfig
    parsed: ParsedFile


def load_file(
    path: str | Path,
    clusters: Sequence[str] | None = None,
    *,
    unknown_keys: UnknownKeys = "fail",
    secrets: Path | None = None,
) -> LoadedFile:
    """The same as `load`, with the entries of the file."""
    if is_resource(path):
        from twinlog.config.strimzi.load import parsed_resource  # noqa: PLC0415 - YAML is slow to import

        found = parsed_resource(path, secrets)
    else:
        require_kind(path, FileKind.MIRROR)
        found = parse_file(read_properties(Path(path)), str(path), unknown_keys)
    return LoadedFile(_config(found, str(path), clusters, as_mirror_maker=unknown_keys == "warn"), found)


def _config(found: ParsedFile, file: str, clusters: Sequence[str] | None, *, as_mirror_maker: bool) -> MirrorConfig:
    """Raises ConfigError with every problem."""
    problems = Problems(found.problems)
    _check_filter(found, clusters, problems)
    wanted = [ends for ends in permutations(found.aliases, 2) if clusters is None or ends[1] in clusters]
    enabled = _enabled(found, wanted, problems)
    layers = {ends: resolve_flow(found, *ends) for ends in wanted}
    beating = [ends for ends in wanted if ends not in enabled and _writes_heartbeats(layers[ends], problems)]
    flows = [build_flow(layers[ends], file, problems, found.warnings, enabled=True) for ends in enabled]
    if all(problem.key != "clusters" for problem in problems.all()):
        # A problem of an enabled flow usually concerns its neighbours, too; it is reported once.
        more = Problems([])
        flows += [build_flow(layers[ends], file, more, found.warnings, enabled=False) for ends in beating]
        problems.add_new(more.all())
    flows = _beside_mirror_maker(flows)
    for ends in enabled:
        warn_of_lost_overrides(layers[ends], found)
    here = {(flow.source, flow.target): flow for flow in flows if flow.enabled}
    every = list(permutations(found.aliases, 2))
    # The problems of flows on another host belong to that host.
    others = _enabled(found, [ends for ends in every if ends not in wanted], Problems([]))
    layers |= {ends: resolve_flow(found, *ends) for ends in others}
    elsewhere = {ends: build_flow(layers[ends], file, Problems([]), [], enabled=True) for ends in others}
    all_enabled = [flow for ends in every if (flow := here.get(ends) or elsewhere.get(ends)) is not None]
    named = {"->".join(ends): layers[ends] for ends in layers}
    warn_of_returns(all_enabled, named, file, found.warnings)
    warn_of_shared_syncs(all_enabled, named, found.warnings)
    process = ConfigReader(found.top, PROCESS, problems)
    first_writes = process.text(SHARED_TOPICS) == "first"
    shared = SharedTopics(file, all_enabled, named, first_writes).find(problems.all())
    for mistake in shared:
        if isinstance(mistake, ConfigProblem) and not as_mirror_maker:
            problems.add(mistake)
        else:
            found.warnings.append(mistake.as_warning())
    if not enabled and not problems.all():
        _without_enabled(found, clusters, flows, problems, as_mirror_maker=as_mirror_maker)
    driver = DriverListener(**read_fields(DriverListener, process))
    console = read_console(found.top, PROCESS, problems, found.warnings)
    metrics = read_metrics(found.top, PROCESS, file, problems, found.warnings)
    if problems.all():
        # From top to bottom, as a user fixes the file; problems that lack a line come last.
        in_order = sorted(problems.all(), key=lambda problem: (problem.line is None, problem.line or 0))
        raise ConfigError(in_order, _without_repeats(in_order, found.warnings))
    return MirrorConfig(
        tuple(flows),
        found.aliases,
        tuple(found.warnings),
        tuple(all_enabled),
        process.flag("twinlog.bridge"),
        metrics,
        driver,
        console,
    )


def _without_repeats(problems: Sequence[ConfigProblem], warnings: Sequence[ConfigWarning]) -> list[ConfigWarning]:
    """The warnings without those of providers that a problem with a value names, too."""
    lost = [problem.text for problem in problems if problem.kind is MistakeKind.LOST_REFERENCE]
    return [
        one
        for one in warnings
        if one.kind is not MistakeKind.PROVIDER or not any(f"({one.key} of line {one.line})" in text for text in lost)
    ]


def _check_filter(found: ParsedFile, clusters: Sequence[str] | None, problems: Problems) -> None:
    known = ", ".join(found.aliases)
    for alias in clusters or ():
        if alias not in found.aliases:
            problems.add(
                ConfigProblem(found.file, None, "--clusters", repr(alias), f"aliases that clusters names: {known}")
            )


def _enabled(found: ParsedFile, wanted: Sequence[SourceAndTarget], problems: Problems) -> list[SourceAndTarget]:
    """The ends among `wanted` whose `S->T.enabled` is true; only that key counts (MirrorMakerConfig.clusterPairs)."""
    enabled: list[SourceAndTarget] = []
    for ends in wanted:
        layer = found.flows.get(ends, {})
        entry = layer.get("enabled")
        if entry is None or not ConfigReader(layer, CONNECTOR, problems).flag("enabled"):
            continue
        if entry.value != entry.value.strip():
            text = "true with a blank after it; the flow runs here, but MirrorMaker 2 would leave it off"
            found.warnings.append(entry.warning(text, MistakeKind.READ_OTHERWISE))
        enabled.append(ends)
    return enabled


def _beside_mirror_maker(flows: list[FlowSettings]) -> list[FlowSettings]:
    """The flows; if a flow that copies has a group of its own, the flows with only heartbeats get such groups, too.

    MirrorMaker 2 joins the group of each flow, enabled or not, and ends if a process of twinlog holds one of them.
    """
    if not any(flow.enabled and flow.has_own_group for flow in flows):
        return flows
    return [
        flow
        if flow.enabled or flow.has_own_group
        else replace(flow, worker_group_id=f"{flow.mirror_maker_group_id}-heartbeats")
        for flow in flows
    ]


def _writes_heartbeats(layers: FlowLayers, problems: Problems) -> bool:
    """Every two clusters have heartbeats unless they are turned off (MirrorMakerConfig.clusterPairs)."""
    reading = ConfigReader(layers.connector, CONNECTOR, problems)
    return reading.flag("emit.heartbeats.enabled") and reading.number("emit.heartbeats.interval.seconds") >= 0


def _without_enabled(
    found: ParsedFile,
    clusters: Sequence[str] | None,
    flows: Sequence[FlowSettings],
    problems: Problems,
    *,
    as_mirror_maker: bool,
) -> None:
    """MirrorMaker 2 then writes heartbeats only; here that is an error unless the file or the user asks for it.

    The replacement for MirrorMaker 2's own command starts as the original does, with a warning.
    """
    elsewhere = bool(_enabled(found, list(permutations(found.aliases, 2)), Problems([]))) and clusters is not None
    asked = any("emit.heartbeats.enabled" in layer for layer in (found.top, *found.flows.values()))
    if flows and (elsewhere or asked or as_mirror_maker):
        where = ", ".join(dict.fromkeys(flow.target for flow in flows))
        way_out = "" if elsewhere or asked else f"; to copy, write {'->'.join(found.aliases[:2])}.enabled = true"
        text = f"all flows to {where} are off; only heartbeats are written there{way_out}"
        found.warnings.append(ConfigWarning(found.file, None, "", text, kind=MistakeKind.ONLY_HEARTBEATS))
    elif elsewhere:
        words = ", ".join(clusters or ())
        problems.add(ConfigProblem(found.file, None, "--clusters", words, "targets of enabled flows"))
    else:
        source, target = (*found.aliases, "A", "B")[:2]
        expected = (
            f"an enabled flow, for example {source}->{target}.enabled = true; for heartbeats alone write "
            "emit.heartbeats.enabled = true"
        )
        problems.add(
            ConfigProblem(found.file, None, "enabled", "all flows are off", expected, MistakeKind.NOTHING_RUNS)
        )
