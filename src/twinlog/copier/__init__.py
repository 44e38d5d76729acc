"""The copier: copies granted partitions, in a Spark task's Python worker, on an event loop in a thread of its own."""
