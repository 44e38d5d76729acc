"""Leases on Spark: its JVM, its sessions, and the source and tasks of flows; topics as DataFrames."""
