"""On the path of twinlog's Pythons, so that a round can let the driver's clock jump."""
