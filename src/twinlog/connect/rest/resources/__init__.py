"""The resources of the REST API, one file for each path of Kafka Connect's own API."""
