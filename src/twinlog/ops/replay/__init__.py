"""`twinlog replay`: copies a range of source offsets into topics of their own, in Spark tasks."""
