"""twinlog on Spark: lost executors, and topics as DataFrames."""
