"""Kafka's own MirrorMaker 2 and Connect worker, their internal topics, and the requests of an interface to a worker."""
