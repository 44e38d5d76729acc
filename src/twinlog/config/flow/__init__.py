"""Reads the settings of one flow from its entries."""
