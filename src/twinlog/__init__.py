"""twinlog keeps clusters of Apache Kafka in step.

`twinlog.start` and `twinlog.run` copy on a SparkSession of yours (`twinlog.mirroring`); `twinlog.client` is what an
application on a target cluster asks about mirroring.
"""

from __future__ import annotations

__version__ = "0.1.0"
__all__ = ["Mirroring", "__version__", "run", "start"]

_MIRRORING = ("Mirroring", "run", "start")


def __getattr__(name: str) -> object:
    """Nothing of a driver is imported where only the version is asked for, as in tasks."""
    if name not in _MIRRORING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - nothing is loaded before signals are

    return getattr(import_module("twinlog.mirroring"), name)
