"""Makes one transform out of all that the settings of a flow name."""

from __future__ import annotations

from twinlog.settings.transform import TransformSettings
from twinlog.transform.function import Transform, chain, load


def build(settings: TransformSettings) -> Transform:
    """The transform of a flow, in the process that asks. Raises TransformError where it cannot be found."""
    functions: list[Transform] = []
    if settings.function:
        functions.append(load(settings.function))
    return chain(functions)
