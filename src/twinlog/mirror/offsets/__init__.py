"""The target offset of each source offset: positions, exact maps and offset syncs, stored on the target."""
