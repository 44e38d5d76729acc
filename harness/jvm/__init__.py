"""Java: Kafka's jars and their hashes, the command line and class archive of a JVM, Kafka's tools, classes of tests."""
