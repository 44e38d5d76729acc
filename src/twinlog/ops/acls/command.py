"""`twinlog acls`: the rights that exactly a file needs, or the missing rights among them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.console.command_log import ends_if_wrong, log_checks, print_note, print_warning_line
from twinlog.console.exit_codes import FOUND, WRONG, end_with
from twinlog.console.options import (
    AnswerTimeout,
    AnyFlow,
    ClusterLogins,
    ConnectorFiles,
    FileOrWorker,
    Secrets,
    WorkerUrl,
    chosen,
)
from twinlog.errors import TwinlogError
from twinlog.kafka.retry import COMMAND_CONNECT_S
from twinlog.ops.acls.formats import RightsFormat
from twinlog.ops.running_worker import read_flows_asked

if TYPE_CHECKING:
    from twinlog.model.types import Alias
    from twinlog.ops.acls.missing import RightsLack
    from twinlog.ops.acls.needs import NeededRight
    from twinlog.settings.client import ClientSettings
    from twinlog.settings.flow import FlowSettings

USES_HELP = "run, plan, diff, status, groups, translate, topics, reload, log-level, verify, audit, replay, switchover"


def acls(
    file: FileOrWorker = None,
    connectors: ConnectorFiles = None,
    url: WorkerUrl = None,
    logins: ClusterLogins = None,
    flow: AnyFlow = None,
    uses: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            metavar="COMMAND,...",
            help=f"The commands that use the rights, by default run, with --withdraw all: {USES_HELP}. Repeatable.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        RightsFormat,
        typer.Option(
            "-o",
            "--output",
            help="kafka-acls prints commands of Kafka's tools, strimzi prints KafkaUser, terraform prints kafka_acl of "
            "the provider Mongey/kafka, json prints everything with its reasons.",
        ),
    ] = RightsFormat.KAFKA_ACLS,
    missing: Annotated[
        bool,
        typer.Option(
            "--missing", help="Ask the clusters, and print only missing and unknown rights, and denials to remove."
        ),
    ] = False,
    withdraw: Annotated[
        Path | None,
        typer.Option(
            "--withdraw",
            metavar="MM2_FILE",
            help="Print commands that remove the rights that `acls` prints for FILE, except for the rights with which "
            "MirrorMaker 2 runs MM2_FILE.",
            show_default=False,
        ),
    ] = None,
    principals: Annotated[
        list[str] | None,
        typer.Option(
            "--principal",
            metavar="ALIAS=User:NAME",
            help="The user of the login on a cluster, if only the brokers know it, as with tokens. Repeatable.",
            show_default=False,
        ),
    ] = None,
    timeout: AnswerTimeout = COMMAND_CONNECT_S,
    secrets: Secrets = None,
) -> None:
    """Print the permissions that exactly FILE needs, for each cluster and each principal.

    Without --missing and --url the command contacts no cluster. With --missing it reads the ACLs of the clusters with
    the logins of FILE. If a login may read no ACLs, the brokers report the operations that this login may use. The
    command then also prints the rights that brokers hide, as unknown. It changes nothing.

    Exit codes: 0; 1 with --missing, a right is missing or unknown; 2; 3; 4.

    Example: twinlog acls mm2.properties > rights.sh && sh rights.sh

    Example: twinlog acls mm2.properties --for run,verify,switchover -o strimzi

    Example: twinlog acls mm2.properties --missing

    Example: twinlog acls canary/canary.properties --withdraw mm2.properties

    Example: twinlog acls --url http://connect-1:8083 --missing
    """
    given = _principals(principals or [])
    if withdraw is not None and (missing or output not in (RightsFormat.KAFKA_ACLS, RightsFormat.JSON)):
        raise typer.BadParameter(
            "it prints commands of Kafka's tools or JSON, and leaves out --missing", param_hint="--withdraw"
        )
    with ends_if_wrong(WRONG):
        known = read_flows_asked(file, connectors or [], secrets, url, logins, whole=True)

    from twinlog.ops.acls.formats import blind_texts, rights_text, rights_words, unknown_texts  # noqa: PLC0415 - Kafka's library is slow to import for --help
    from twinlog.ops.acls.needs import clients_of, lines_of, needed_rights, printed_rights  # noqa: PLC0415
    from twinlog.ops.acls.rights import USES  # noqa: PLC0415

    whole = ["run"] if withdraw is None else USES
    wanted = [name.strip() for text in uses or whole for name in text.split(",") if name.strip()]
    unknown = sorted(set(wanted) - set(USES))
    if unknown or not wanted:
        text = f"{', '.join(unknown) or 'nothing'} is no command whose rights are known; write some of {USES_HELP}"
        raise typer.BadParameter(text, param_hint="--for")
    flows = known.flows if flow is None else chosen(known.flows, flow, idle=True)
    clients = clients_of(flows, known.worker)
    strange = sorted(given.keys() - clients.keys())
    if strange:
        text = f"{', '.join(strange)} is no cluster of these flows; they have {', '.join(clients)}"
        raise typer.BadParameter(text, param_hint="--principal")
    log_checks()
    with ends_if_wrong(WRONG):
        if withdraw is not None:
            printed = printed_rights(flows, wanted, known.worker, given)
            gone, lost, renamed, of_audit = _withdrawn(printed, withdraw, clients, secrets, given)
            typer.echo(rights_text([*lines_of(lost), *lines_of(gone, withdrawn=True)], output, renamed))
            print_note(_remaining(withdraw, sorted(set(USES) - set(wanted))))
            if of_audit:
                words = "; ".join(rights_words(lines_of(of_audit)))
                print_note(
                    f"they also remove rights of twinlog audit {withdraw}: {words}; after them twinlog acls {withdraw} "
                    "--for audit --missing prints the commands that grant these rights"
                )
            if "switchover" in wanted:
                print_note(_FENCE)
            return
        rights = needed_rights(flows, wanted, known.worker, given)
    if not missing:
        typer.echo(rights_text(lines_of(rights), output, clients))
        return
    try:
        found = _missing(rights, clients, timeout, known.flows)
    except TwinlogError as error:
        end_with(error)
    lines, doubtful = lines_of(found.missing), lines_of(found.unknown, unknown=True)
    lacking = bool(lines or doubtful or found.denials)
    if lacking or output is RightsFormat.JSON:
        typer.echo(rights_text([*lines, *doubtful], output, clients, found.denials))
    else:
        print_note("nothing is missing: every needed right is given")
    named = {one.cluster for one in doubtful}
    short = {one.cluster for one in lines} - named
    for text in [*unknown_texts(doubtful), *blind_texts(one for one in found.blind if one in short)]:
        print_warning_line(f"TW-ACL-04: {text}")
    if lacking:
        raise typer.Exit(FOUND)


_FENCE = (
    "a switchover lifts its fence with these rights: before these commands run twinlog switchover with --release, else "
    "producers stay fenced"
)


def _principals(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        alias, equals, name = one.partition("=")
        if not equals or not alias or not name.startswith("User:") or name == "User:":
            text = f"{one!r}: expected ALIAS=User:NAME, as in east=User:mirror"
            raise typer.BadParameter(text, param_hint="--principal")
        found[alias] = name
    return found


def _remaining(file: Path, uses: Sequence[str]) -> str:
    """A line about the rights of twinlog that a withdrawal leaves."""
    of_uses = f"the rights of {', '.join(uses)}, and " if uses else ""
    return (
        f"these commands leave {of_uses}the rights of other files, for example of a wave with its own group.id: run "
        f"twinlog acls WAVE_FILE --withdraw {file} for each"
    )


def _withdrawn(
    rights: Sequence[NeededRight],
    file: Path,
    clients: Mapping[Alias, ClientSettings],
    secrets: Path | None,
    given: Mapping[str, str],
) -> tuple[list[NeededRight], list[NeededRight], dict[Alias, ClientSettings], list[NeededRight]]:
    """The rights that may go beside MirrorMaker 2's file, rights of MirrorMaker 2 that these rights gave so far, the
    clients of the clusters, and the rights of an audit of MirrorMaker 2's file among those that go.

    A cluster has its alias in MirrorMaker 2's file, because an operator has an administrator's login by this name.
    """
    from twinlog.ops.acls.needs import (  # noqa: PLC0415
        clients_of,
        lost_by_withdrawal,
        needed_rights,
        rights_of_mirror_maker,
        withdrawn_rights,
    )

    of_mm2 = read_flows_asked(file, [], secrets, None, None, whole=True)
    if any(one.only_copies for one in of_mm2.flows):
        raise typer.BadParameter(
            f"{file} is a canary's file, and these commands would remove rights of MirrorMaker 2: write twinlog acls "
            "CANARY_FILE --withdraw MM2_FILE",
            param_hint="--withdraw",
        )
    theirs = clients_of(of_mm2.flows, of_mm2.worker)
    # A canary has another alias for a cluster.
    alias = {
        there: here
        for there, client in theirs.items()
        for here, mine in clients.items()
        if here == there or client.shares_servers(mine)
    }
    known = {str(there): given[here] for there, here in alias.items() if here in given}
    kept = rights_of_mirror_maker(of_mm2.flows, of_mm2.worker, known)
    gone, lost = withdrawn_rights(rights, [replace(one, cluster=alias.get(one.cluster, one.cluster)) for one in kept])
    names = {here: there for there, here in alias.items()}

    def named(some: Sequence[NeededRight]) -> list[NeededRight]:
        return [replace(one, cluster=names.get(one.cluster, one.cluster)) for one in some]

    removed = named(gone)
    of_audit = lost_by_withdrawal(removed, kept, needed_rights(of_mm2.flows, ["audit"], of_mm2.worker, known))
    return removed, named(lost), {names.get(here, here): client for here, client in clients.items()}, of_audit


def _missing(
    rights: Sequence[NeededRight],
    clients: Mapping[Alias, ClientSettings],
    connect_s: float,
    flows: Sequence[FlowSettings],
) -> RightsLack:
    """The missing and unknown rights, and the denials that take rights away. Raises ClusterError.

    Denials that other flows than `flows` have left are among them.
    """
    from twinlog.kafka.admin.cluster import ClusterAdmin  # noqa: PLC0415
    from twinlog.mirror.topics.left_fences import LeftFences, owners_of  # noqa: PLC0415
    from twinlog.ops.acls.missing import ClusterJudge, RightsLack, missing_rights, with_left_fences  # noqa: PLC0415

    by_cluster: dict[Alias, list[NeededRight]] = defaultdict(list)
    for right in rights:
        by_cluster[right.cluster].append(right)
    found = RightsLack()
    for alias, some in by_cluster.items():
        admin = ClusterAdmin(alias, clients[alias])
        try:
            admin.connect(connect_s)
            lack = missing_rights(some, ClusterJudge(admin))
            found += with_left_fences(lack, alias, LeftFences(admin, owners_of(flows)).find())
        finally:
            admin.close()
    return found
