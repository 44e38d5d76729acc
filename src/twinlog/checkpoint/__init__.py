"""Topics for consumer groups on the target: checkpoints of their offsets, and heartbeats of the flow."""
