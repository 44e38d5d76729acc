"""Lets Spark find the format `twinlog-kafka`: it registers `DefaultSource` of any module named `pyspark_*`."""

from twinlog.spark.dataframes.topic_source import TopicSource as DefaultSource

__all__ = ["DefaultSource"]
