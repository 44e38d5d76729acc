"""Which topics a flow mirrors and the names of their copies. The package works on names, apart from any cluster."""
