"""Which streams exist: how remote topics are called, and which topics a flow mirrors. No I/O."""
