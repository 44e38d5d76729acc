"""`twinlog connectors`: Connect's REST API on the command line, of twinlog's workers and of Kafka's own."""
