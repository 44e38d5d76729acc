"""What landed where: positions of source partitions, stored on the target."""
