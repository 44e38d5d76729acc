"""Workers of Kafka Connect of both systems: their starts, lists and idle time."""
