"""`transform.sql`: Spark SQL on the columns of a fetch, evaluated by a JVM that belongs to the copier.

A task cannot call the JVM of its executor, and an error within a plan of that JVM would end the task, with its copier.
"""
