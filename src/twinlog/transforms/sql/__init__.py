"""`transform.sql`: Spark SQL on the columns of a fetch, evaluated by a JVM that belongs to the copier.

The JVM of the executor is out of a task's reach, and an error in a plan of that JVM would end the task and its copier.
"""
