"""Topics as DataFrames: the options of a reader become ranges of offsets. Runs where Spark plans, not in tasks.

Options, columns and words of errors are those of Spark's own Kafka source (`KafkaSourceProvider`, `KafkaOffsetReader`).
"""
