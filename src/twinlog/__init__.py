"""twinlog keeps clusters of Apache Kafka in step.

`twinlog.start` and `twinlog.run` copy on a SparkSession of yours (`twinlog.mirroring`); an application on a target
cluster asks `twinlog.client` about mirroring.
"""

from __future__ import annotations

__version__ = "0.1.0"
__all__ = ["Mirroring", "__version__", "run", "start"]

_MIRRORING = ("Mirroring", "run", "start")


def __getattr__(name: str) -> object:
    """A task imports only the version: the driver's modules are loaded on their first use."""
    if name not in _MIRRORING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - nothing is loaded before signals are

    return getattr(import_module("twinlog.mirroring"), name)
