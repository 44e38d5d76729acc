"""Reads the settings of a flow from its entries."""
