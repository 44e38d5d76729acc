"""`twinlog diff`: how two clusters differ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.config.file_kind import FileKind, known_kind
from twinlog.config.flow.clients import load_client
from twinlog.console.command_log import ends_if_wrong, log_checks, print_warning_line, print_warnings
from twinlog.console.data_format import DataFormat, print_result
from twinlog.console.exit_codes import FOUND, UNREACHABLE, WRONG, end_with
from twinlog.console.flow_files import read_flows
from twinlog.console.options import AnswerTimeout, Everything, Output, Secrets
from twinlog.errors import ConfigError, TwinlogError
from twinlog.errors.mistakes import ConfigProblem
from twinlog.kafka.retry import COMMAND_CONNECT_S
from twinlog.settings.client import ClientSettings
from twinlog.settings.flow import FlowSettings

if TYPE_CHECKING:
    from twinlog.ops.diff.differences import TopicPairing
    from twinlog.ops.inventory import Inventory


@dataclass(frozen=True, slots=True)
class _Sides:
    """Two clusters, and the flow from left to right whose topic names count, if there is any."""

    left: tuple[str, ClientSettings]
    right: tuple[str, ClientSettings]
    flow: FlowSettings | None = None


def diff(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A file with flows; or the client properties of the first cluster.",
            show_default=False,
        ),
    ],
    other: Annotated[
        str | None,
        typer.Argument(metavar="OTHER", help="The client properties of the second cluster.", show_default=False),
    ] = None,
    last: Annotated[str | None, typer.Argument(hidden=True)] = None,
    left: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="A",
            help="Compare this cluster of FILE. Default: both clusters of FILE, if it has two.",
            show_default=False,
        ),
    ] = None,
    right: Annotated[
        str | None,
        typer.Option("--to", metavar="B", help="Compare with this cluster of FILE.", show_default=False),
    ] = None,
    kept: Annotated[
        bool, typer.Option("--same-names", help="Compare topics of equal names, even if FILE has a flow from A to B.")
    ] = False,
    everything: Everything = False,
    output: Output = DataFormat.TABLE,
    timeout: AnswerTimeout = COMMAND_CONNECT_S,
    secrets: Secrets = None,
) -> None:
    """Compare topics, settings, ACLs, quotas, SCRAM users and consumer groups of two clusters. Changes nothing.

    If FILE has a flow between A and B, a topic is compared with its copy, and the source is on the left. Otherwise
    topics of equal names are compared.

    Exit codes: 0 both are equal; 1 they differ; 2; 3 a cluster is out of reach, or a part of it is unreadable and the
    rest is equal; 4.

    Example: twinlog diff mm2.properties --from east --to west

    Example: twinlog diff east.properties west.properties -o json
    """
    if last is not None and (left, right) == (None, None):
        # `twinlog diff FILE A B`, the form of earlier versions.
        left, right, other, last = other, last, None, None
    _refuse_mixed(file, other, last, left, right)
    with ends_if_wrong(WRONG):
        sides = _of_file(file, left, right, secrets) if other is None else _of_clients(file, Path(other))
    log_checks()

    from twinlog.ops.diff.differences import compare_clusters, diff_lines  # noqa: PLC0415 - Kafka's library is slow to import for --help

    try:
        names = _names(None if kept else sides.flow)
        here, there = _read(sides, names, timeout)
        # The comparison calls classes of the user about both inventories.
        found = compare_clusters(here, there, names)
    except TwinlogError as error:
        end_with(error)
    unread = (*here.unread, *there.unread)

    def as_json() -> dict[str, object]:
        return {
            "left": here.alias,
            "right": there.alias,
            "compared": names.words,
            "differences": [one.as_json() for one in found],
            "unread": [f"TW-PLAN-06: {note}" for note in unread],
        }

    print_result(
        output, as_json, lambda: diff_lines(here.alias, there.alias, names.words, found, everything=everything)
    )
    if output is DataFormat.TABLE:
        for note in unread:
            print_warning_line(f"TW-PLAN-06: not compared: {note}")
    if found or unread:
        raise typer.Exit(FOUND if found else UNREACHABLE)


def _refuse_mixed(file: Path, other: str | None, last: str | None, left: str | None, right: str | None) -> None:
    """Refuse a command line that mixes clusters of a file with files of clients, or names half of a pair."""
    if last is not None or (other is not None and (left, right) != (None, None)):
        raise typer.BadParameter(
            "these are clusters of a file with flows: leave OTHER out", param_hint="--from and --to"
        )
    if other is not None and known_kind(file) in (FileKind.MIRROR, FileKind.RESOURCE):
        text = f"{file} has flows, and two of its clusters are compared: choose them by --from and --to"
        raise typer.BadParameter(text, param_hint="OTHER")
    if other is None and (left, right) == (None, None) and file.is_file() and known_kind(file) is None:
        raise typer.BadParameter("missing; give the client properties of the second cluster", param_hint="OTHER")
    if (left is None) != (right is None):
        raise typer.BadParameter(
            "give both options, or leave both out for a file of two clusters", param_hint="--from and --to"
        )
    if left is not None and left == right:
        raise typer.BadParameter(f"{left} twice: a cluster is equal to itself", param_hint="--from and --to")


def _of_clients(left: Path, right: Path) -> _Sides:
    """Two files, each with the settings of a client of a cluster."""
    sides = []
    for path in (left, right):
        settings, warnings = load_client(path)
        print_warnings(warnings)
        sides.append((path.stem, settings))
    return _Sides(sides[0], sides[1])


def _of_file(file: Path, left: str | None, right: str | None, secrets: Path | None) -> _Sides:
    """Two clusters of a file, the source of the flow between them first; by default the only two."""
    known = read_flows(file, (), secrets)
    clients = {str(flow.source): flow.source_admin.client for flow in known if flow.enabled}
    clients |= {str(flow.target): flow.target_admin.client for flow in known}
    if left is None or right is None:
        if len(clients) != 2:
            text = f"FILE has the clusters {', '.join(clients)}: choose two of them"
            raise typer.BadParameter(text, param_hint="--from and --to")
        left, right = clients
    for alias in (left, right):
        if alias not in clients:
            expected = f"two clusters of flows of the file: {', '.join(sorted(clients))}"
            raise ConfigError([ConfigProblem(str(file), None, "alias", repr(alias), expected)])
    flows = {(str(flow.source), str(flow.target)): flow for flow in known if flow.enabled}
    if (right, left) in flows and (left, right) not in flows:
        left, right = right, left
    return _Sides((left, clients[left]), (right, clients[right]), flows.get((left, right)))


def _names(flow: FlowSettings | None) -> TopicPairing:
    from twinlog.mirror.topology.plugins import config_filter_of, group_filter_of  # noqa: PLC0415
    from twinlog.mirror.topology.topology import topology_of  # noqa: PLC0415
    from twinlog.ops.diff.differences import FlowTopicPairing, TopicPairing  # noqa: PLC0415

    if flow is None:
        return TopicPairing()
    return FlowTopicPairing(
        topology_of(flow), group_filter_of(flow), config_filter_of(flow), flow.name, flow.replication_factor
    )


def _read(sides: _Sides, names: TopicPairing, connect_s: float) -> tuple[Inventory, Inventory]:
    from twinlog.console.progress import ReadingProgress  # noqa: PLC0415
    from twinlog.kafka.admin.cluster import ClusterAdmin  # noqa: PLC0415
    from twinlog.mirror.heartbeats import HeartbeatTopics  # noqa: PLC0415
    from twinlog.ops.diff.differences import FlowTopicPairing  # noqa: PLC0415
    from twinlog.ops.inventory import Content, read_inventory  # noqa: PLC0415

    parts = Content.CONFIGS | Content.LOGS | Content.ACLS | Content.GROUPS | Content.QUOTAS | Content.USERS
    found: list[Inventory] = []
    with ReadingProgress() as progress:
        for (alias, settings), wanted in (
            (sides.left, lambda name: names.right(name) is not None),
            (sides.right, lambda name: names.left(name) is not None),
        ):
            admin = ClusterAdmin(alias, settings)
            try:
                admin.connect(connect_s)
                if isinstance(names, FlowTopicPairing) and not found:
                    names.add_aliases(
                        HeartbeatTopics(admin, names.heartbeat_names).inspect_topics(admin.topics()).aliases
                    )
                found.append(read_inventory(admin, parts, wanted=wanted, progress=partial(progress, alias)))
            finally:
                admin.close()
    return found[0], found[1]
