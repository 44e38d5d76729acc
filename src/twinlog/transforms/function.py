"""The type of a transform, the chain of several transforms, and the loading of a transform by its name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from twinlog.errors import TransformError

Transform = Callable[[Any], Any]
"""`pa.RecordBatch -> pa.RecordBatch`, both with the columns of `arrow.arrays.schema(headers=True)`.

`topic` is the remote topic; another name in it routes the record. `partition` is the source's number and the partition
that the record goes to; null leaves the choice to the key (Kafka's default partitioner). `offset` is the source's, and
names the record that a row comes from. A missing offset drops its record. An added row repeats the offset of its
record, after that record. The same records must give the same rows, whatever batches they come in.
"""


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
        # An unguarded script may end the process.
        raise TransformError(f"importing {module_name} raises {type(error).__name__}: {error}") from error
    if not callable(found):
        raise TransformError(f"{path} is {found!r}, which is no function")
    return found  # type: ignore[no-any-return]
