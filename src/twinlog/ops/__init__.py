"""The commands for operators: each with its logic, its Spark job, its options and its output."""
