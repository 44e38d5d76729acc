"""Consumer groups of the source on the target: checkpoints, translated offsets, and committed offsets."""
