"""What the commands share: log, tables, progress, signals, files with flows, and options for Spark."""
