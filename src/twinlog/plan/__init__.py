"""What to copy next, decided on the driver without any I/O."""
