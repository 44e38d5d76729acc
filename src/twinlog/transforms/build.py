"""Makes a single transform from the settings of a flow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlog.settings.transform import TransformSettings
from twinlog.transforms.contract import checking
from twinlog.transforms.function import Transform, chain, load
from twinlog.transforms.smt.chain import smt_transform

if TYPE_CHECKING:
    from twinlog.transforms.sql.transform import SqlTransform


def build(settings: TransformSettings, sql: SqlTransform | None = None) -> Transform:
    """The transform of a flow, in the calling process: Connect's transforms, then the function, then `sql`.

    Raises TransformError for a transform that is missing here.
    """
    functions: list[Transform] = []
    if settings.smts is not None:
        functions.append(smt_transform(settings.smts))
    if settings.function:
        function = load(settings.function)
        # The JVM reads columns as if they had the types of rows, whatever their types are.
        functions.append(function if sql is None else checking(function))
    if sql is not None:
        functions.append(sql)
    return chain(functions)


def sql_transform(settings: TransformSettings) -> SqlTransform | None:
    """The query of a flow, before its start; None for a flow of other transforms."""
    if not settings.sql:
        return None
    # pyspark is loaded for a query only.
    from twinlog.transforms.sql.transform import SqlTransform  # noqa: PLC0415

    return SqlTransform(settings.sql)
