"""What a transform is, how several become one, and how one is found by its name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from twinlog.errors import TransformError

Transform = Callable[[Any], Any]
"""`pa.RecordBatch -> pa.RecordBatch`, both with the columns of `rows.arrow.schema(headers=True)`.

`topic` is the remote topic; another name there routes the record. `partition` is the source's, and is where the record
goes; null leaves it to the key (Kafka's default partitioner). `offset` is the source's, and names the record that a row
comes from: a record is dropped by leaving its offset out, and an added row repeats the offset of the record that it
belongs to, after that record. The same records must give the same rows, whatever batches they come in.
"""


def chain(functions: Sequence[Transform]) -> Transform:
    """One transform that applies these in their order."""
    if len(functions) == 1:
        return functions[0]

    def chained(rows: Any) -> Any:
        return reduce(lambda so_far, function: function(so_far), functions, rows)

    return chained


def load(path: str) -> Transform:
    """The function that `package.module:function` names. Raises TransformError with what is wrong with it."""
    module_name, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise TransformError(f"importing {module_name} raises {type(error).__name__}: {error}") from error
        raise TransformError(
            f"there is no module {error.name!r}; install its package, or set PYTHONPATH, where the flow is run and on "
            "each of Spark's executors"
        ) from None
    except AttributeError as error:
        if hasattr(error, "obj") and name:
            raise TransformError(f"the module {module_name} has no function {name!r}") from None
        raise TransformError(f"importing {module_name} raises AttributeError: {error}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # A script without a guard of its main part may end the process.
        raise TransformError(f"importing {module_name} raises {type(error).__name__}: {error}") from error
    if not callable(found):
        raise TransformError(f"{path} is {found!r}, which is no function")
    return found  # type: ignore[no-any-return]
