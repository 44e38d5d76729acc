"""Requests to group coordinators and transaction coordinators."""
