"""A right of a login on a cluster as a row of a table, with its reason and the commands that need it.

`run_rights` and `command_rights` have the rows. `docs/security.md` and `docs/switchover.md` have them as tables;
`python -m twinlog.ops.acls.reference` writes these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from twinlog.model.acls import AclOperation
from twinlog.ops.acls.resources import Places, follows
from twinlog.settings.flow import FlowSettings

Side = Literal["source", "target"]
Login = Literal["data", "admin"]
"""`data` reads or appends records: the consumer on the source, the producer on the target. `admin` does the rest."""

USES = (
    "run",
    "plan",
    "diff",
    "status",
    "groups",
    "translate",
    "topics",
    "reload",
    "log-level",
    "verify",
    "audit",
    "replay",
    "switchover",
)
"""The commands whose rights are known. `ops.acls.command` has the same list as text, to print its help at once."""


def copies(flow: FlowSettings) -> bool:
    """Whether the flow copies records."""
    return flow.copies


def reads_source(flow: FlowSettings) -> bool:
    """Whether the flow reads topics or groups of its source."""
    return flow.enabled and flow.kind != "heartbeat"


def elects_process(flow: FlowSettings) -> bool:
    """Whether the processes of the flow elect one of them by a group."""
    return flow.kind is None


def syncs_on(side: Side) -> Callable[[FlowSettings], bool]:
    """The condition that a flow has its topic of offset syncs on this side."""

    def there(flow: FlowSettings) -> bool:
        writes = flow.copies and flow.emit_offset_syncs
        return flow.enabled and flow.offset_syncs_location == side and (writes or follows(flow))

    return there


@dataclass(frozen=True, slots=True)
class RightRow:
    """Operations on resources of a side that the commands in `uses` need.

    `on` names the resources in the documents, for a flow east->west, and `why` is the purpose there. A flow needs the
    row if `when` is true. `logins` are the logins that use it. MirrorMaker 2 needs rows with `mm2`, too.
    """

    side: Side
    on: str
    operations: tuple[AclOperation, ...]
    why: str
    places: Places
    when: Callable[[FlowSettings], bool]
    logins: tuple[Login, ...] = ("admin",)
    uses: tuple[str, ...] = ("run",)
    mm2: bool = False


BOTH_LOGINS: tuple[Login, ...] = ("data", "admin")
OF_SYNCS = "topic `mm2-offset-syncs.west.internal`"
