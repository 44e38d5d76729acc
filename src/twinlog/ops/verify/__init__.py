"""`twinlog verify`: compares copies with their sources record by record, in Spark tasks; it only reads."""
