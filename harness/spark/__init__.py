"""A standalone Spark whose workers can be killed, cheap JVMs for queries, and another release of PySpark."""
