"""Spark's JVM as a child process: started, called, measured and ended."""
