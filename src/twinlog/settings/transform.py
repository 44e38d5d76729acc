"""The transforms of a flow's records, and the rule for records on which they fail; plain values for tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from twinlog.settings.failed_records import FailedRecordSettings
from twinlog.settings.smt import SmtChain
from twinlog.settings.written import WrittenAs, out_of


@dataclass(frozen=True, slots=True)
class TransformSettings(FailedRecordSettings):
    """The transforms of a flow, in the order `smts`, `function`, `sql`.

    `function` is `package.module:function`; only that name travels, and each task imports it. `smts` are Connect's
    transforms, and `sql` is a query of Spark SQL.
    """

    function: Annotated[str, WrittenAs("transform")] = ""
    smts: Annotated[SmtChain | None, out_of("transforms")] = None
    sql: Annotated[str, WrittenAs("transform.sql")] = ""

    @property
    def shown(self) -> str:
        """The transforms, for people: names of Connect's transforms, the function, and `SQL` for a query."""
        smts = () if self.smts is None else (stage.shown for stage in self.smts.stages)
        return ", ".join((*smts, *self._own("SQL")))

    @property
    def steps(self) -> str:
        """All changes to a record, in their order, with the conditions and the query."""
        smts = () if self.smts is None else (stage.with_condition for stage in self.smts.stages)
        return ", then ".join((*smts, *self._own(" ".join(self.sql.split()))))

    @property
    def routes_are_known(self) -> bool:
        """Whether names of topics alone decide the routes of records, as Connect's RegexRouter does on every record."""
        stages = () if self.smts is None else self.smts.stages
        decides = (one.kind == "TimestampRouter" or (one.kind == "RegexRouter" and one.predicate) for one in stages)
        return not self.function and not self.sql and not any(decides)

    def _own(self, sql: str) -> tuple[str, ...]:
        return tuple(name for name in (self.function, sql if self.sql else "") if name)
