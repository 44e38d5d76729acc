"""What changes the records of a flow, and what becomes of those that it fails on; plain values that travel to tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from twinlog.settings.smt import SmtChain
from twinlog.settings.written import WrittenAs, out_of

Tolerance = Literal["none", "all"]


@dataclass(frozen=True, slots=True)
class TransformSettings:
    """`function` is `package.module:function`; only that name travels, and each task imports it. `smts` are Connect's
    transforms, which come before it, and `sql` is a query of Spark SQL, which comes after it.

    A record that it fails on stops the flow, or with the tolerance `all` is skipped; with a `dead_letter_topic` it is
    written there as it was, and with `dead_letter_headers` it has headers there with its origin and the reason.
    `dead_letter_replication_factor` of -1 means the broker's default. With `log_errors` each is an event, and with
    `log_messages` that shows the record.
    """

    function: Annotated[str, WrittenAs("transform")] = ""
    tolerance: Annotated[Tolerance, WrittenAs("errors.tolerance")] = "none"
    dead_letter_topic: Annotated[str, WrittenAs("errors.deadletterqueue.topic.name")] = ""
    dead_letter_replication_factor: Annotated[int, WrittenAs("errors.deadletterqueue.topic.replication.factor")] = 3
    dead_letter_headers: Annotated[bool, WrittenAs("errors.deadletterqueue.context.headers.enable")] = False
    log_errors: Annotated[bool, WrittenAs("errors.log.enable")] = False
    log_messages: Annotated[bool, WrittenAs("errors.log.include.messages")] = False
    smts: Annotated[SmtChain | None, out_of("transforms")] = None
    sql: Annotated[str, WrittenAs("transform.sql")] = ""

    @property
    def shown(self) -> str:
        """What changes the records, for people: names of Connect's transforms, the function, and that there is SQL."""
        smts = () if self.smts is None else (stage.shown for stage in self.smts.stages)
        return ", ".join((*smts, *self._own("SQL")))

    @property
    def steps(self) -> str:
        """All that happens to a record, in its order, with the conditions and the query."""
        smts = () if self.smts is None else (stage.with_condition for stage in self.smts.stages)
        return ", then ".join((*smts, *self._own(" ".join(self.sql.split()))))

    def _own(self, sql: str) -> tuple[str, ...]:
        return tuple(name for name in (self.function, sql if self.sql else "") if name)
