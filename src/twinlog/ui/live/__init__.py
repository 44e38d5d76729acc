"""Live readings of flows: the threads that read, the memory of readings, and the parts of pages that show them."""
