"""Who gets what: flows and connectors for processes, slots of Spark for flows, partitions for tasks."""
