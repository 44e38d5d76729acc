"""Makes one transform out of all that the settings of a flow name."""

from __future__ import annotations

from twinlog.settings.transform import TransformSettings
from twinlog.transform.function import Transform, chain, load
from twinlog.transform.smt.chain import smt_transform


def build(settings: TransformSettings) -> Transform:
    """The transform of a flow, in the process that asks. Raises TransformError where it cannot be found."""
    functions: list[Transform] = []
    if settings.smts is not None:
        functions.append(smt_transform(settings.smts))
    if settings.function:
        functions.append(load(settings.function))
    return chain(functions)
