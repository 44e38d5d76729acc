"""Which topics a flow mirrors and the names of their copies. This package reads no cluster."""
