"""The driver: flows in, streaming queries up, leases out, a clean stop."""
