"""The settings of one flow, read from its entries."""
