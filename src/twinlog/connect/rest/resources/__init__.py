"""The resources of the REST API; each path of Kafka Connect's own API has a file."""
