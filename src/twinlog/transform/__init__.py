"""Changes to records on their way: functions from Arrow record batch to Arrow record batch. Runs in Spark's tasks.

Nobody imports this package who did not ask for a transform: it needs pyarrow and numpy.
"""
