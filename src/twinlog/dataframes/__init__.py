"""Topics as DataFrames: the formats `twinlog-kafka`, read and written.

Options, columns and messages are those of Spark's own Kafka source (`KafkaSourceProvider`, `KafkaOffsetReader`).
"""
