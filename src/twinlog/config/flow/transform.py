"""The transform of a flow: what changes its records, and what becomes of those that it fails on."""

from __future__ import annotations

from twinlog.config.text.reading import Reading, plain_fields
from twinlog.config.text.resolve import FlowLayers
from twinlog.errors import TransformError
from twinlog.settings.smt import SmtChain
from twinlog.settings.transform import TransformSettings

_EXPECTED = "package.module:function, which takes a pyarrow.RecordBatch and returns one"


def transform_settings(
    connector: Reading, layers: FlowLayers, file: str, warnings: list[str]
) -> TransformSettings | None:
    """The settings of what transforms a flow, None for nothing; a function is imported, and tried on an empty batch."""
    smts = _connects_own(connector, layers, file, warnings)
    settings = TransformSettings(**plain_fields(TransformSettings, connector), smts=smts)
    if not settings.function and not settings.sql and smts is None:
        return None
    _try(connector, settings)
    return settings


def _connects_own(connector: Reading, layers: FlowLayers, file: str, warnings: list[str]) -> SmtChain | None:
    if not any(name.startswith(("transforms", "predicates")) for name in layers.connector):
        return None
    # Without transforms nothing of them is loaded.
    from twinlog.config.smt.read import read_chain  # noqa: PLC0415

    return read_chain(connector, layers, file, warnings)


def _try(connector: Reading, settings: TransformSettings) -> None:
    """Runs the user's code; what is wrong with it is a problem of the line that names it."""
    # Copying without transforms needs no pyarrow.
    from twinlog.transforms.build import build  # noqa: PLC0415
    from twinlog.transforms.contract import try_on_nothing  # noqa: PLC0415

    entry = connector.written("transform") if settings.function else None
    if entry is not None:
        try:
            try_on_nothing(build(settings))
        except TransformError as error:
            connector.problems.refuse(entry, f"{settings.function}: {error}", _EXPECTED)
