"""What consumer groups get to know on the target: checkpoints of their offsets, and heartbeats of the flow."""
