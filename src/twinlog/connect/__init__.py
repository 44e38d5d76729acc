"""The Connect worker: MirrorMaker 2's three connectors, driven over Connect's REST API."""
