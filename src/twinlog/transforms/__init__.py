"""Changes to records on their way: functions from Arrow record batch to Arrow record batch, run in Spark's tasks.

Only a flow with a transform imports this package: it needs pyarrow and numpy.
"""
