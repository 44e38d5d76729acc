"""Lets Spark find the format `twinlog` by itself: it registers `DefaultSource` of any module named `pyspark_*`."""

from twinlog.spark.source import LeaseSource as DefaultSource

__all__ = ["DefaultSource"]
