"""Topics as rows: record batches become Arrow record batches, a whole fetch at once. Runs in Spark's tasks.

Only this package and `transform` import numpy, and this package is imported only where rows are asked for.
"""
