"""Lets Spark find the format `twinlog-verify`: it registers `DefaultSource` of any module named `pyspark_*`."""

from twinlog.ops.verify.source import VerifySource as DefaultSource

__all__ = ["DefaultSource"]
