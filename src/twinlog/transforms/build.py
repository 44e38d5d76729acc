"""Makes the transform of a flow from its settings: loads the function by its name, and joins several transforms."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from twinlog.errors import TransformError
from twinlog.settings.transform import TransformSettings
from twinlog.transforms.contract import Transform, checking
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


def chain(functions: Sequence[Transform]) -> Transform:
    """A transform that applies these transforms in their order."""
    if len(functions) == 1:
        return functions[0]

    def chained(rows: Any) -> Any:
        return reduce(lambda so_far, function: function(so_far), functions, rows)

    return chained


def load(path: str) -> Transform:
    """The function that `package.module:function` names. Raises TransformError with the problem of the name."""
    module_name, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise TransformError(f"importing {module_name} raises {type(error).__name__}: {error}") from error
        raise TransformError(
            f"the module {error.name!r} is missing; install its package, or set PYTHONPATH, on the flow's machine and "
            "on each of Spark's executors"
        ) from None
    except AttributeError as error:
        if hasattr(error, "obj") and name:
            raise TransformError(f"the module {module_name} lacks a function {name!r}") from None
        raise TransformError(f"importing {module_name} raises AttributeError: {error}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # An unguarded script may end the process.
        raise TransformError(f"importing {module_name} raises {type(error).__name__}: {error}") from error
    if not callable(found):
        raise TransformError(f"{path} is {found!r}, and a function is expected")
    return found  # type: ignore[no-any-return]
