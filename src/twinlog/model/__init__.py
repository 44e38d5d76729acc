"""Values that every package shares: names, topics, groups and rights."""
