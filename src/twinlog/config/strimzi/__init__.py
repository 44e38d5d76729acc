"""Strimzi's `KafkaMirrorMaker2`: from its YAML to the worker, the connectors and the flows that it asks for."""
