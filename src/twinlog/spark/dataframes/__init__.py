"""Topics as DataFrames: the format `twinlog-kafka`, read and written.

Options, columns and messages follow Spark's own Kafka source (`KafkaSourceProvider`, `KafkaOffsetReader`).
"""
