"""twinlog keeps clusters of Apache Kafka in step."""

__version__ = "0.1.0"
__all__ = ["__version__"]
