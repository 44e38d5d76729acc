"""Which source offset is at which target offset: positions, maps and offset syncs, stored on the target."""
