"""The pages of connectors: the list, a connector, its configuration and its offsets."""
