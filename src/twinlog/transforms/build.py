"""Makes one transform out of all that the settings of a flow name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlog.settings.transform import TransformSettings
from twinlog.transforms.contract import checking
from twinlog.transforms.function import Transform, chain, load
from twinlog.transforms.smt.chain import smt_transform

if TYPE_CHECKING:
    from twinlog.transforms.sql.transform import SqlTransform


def build(settings: TransformSettings, sql: SqlTransform | None = None) -> Transform:
    """The transform of a flow, in the process that asks: Connect's transforms, then the function, then `sql`.

    Raises TransformError where one cannot be found.
    """
    functions: list[Transform] = []
    if settings.smts is not None:
        functions.append(smt_transform(settings.smts))
    if settings.function:
        function = load(settings.function)
        # The JVM reads columns as if they were of the types of rows, whatever they are of.
        functions.append(function if sql is None else checking(function))
    if sql is not None:
        functions.append(sql)
    return chain(functions)


def sql_transform(settings: TransformSettings) -> SqlTransform | None:
    """The query of a flow, which is not started yet; None without one."""
    if not settings.sql:
        return None
    # Without a query nothing of pyspark is loaded.
    from twinlog.transforms.sql.transform import SqlTransform  # noqa: PLC0415

    return SqlTransform(settings.sql)
