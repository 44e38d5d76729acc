"""The common parts of commands: log, tables, progress, signals, files with flows, and options for Spark."""
