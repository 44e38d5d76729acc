"""Changes to records on their way: functions from Arrow record batch to Arrow record batch. Runs in Spark's tasks.

It is imported only where a flow has a transform: it needs pyarrow and numpy.
"""
