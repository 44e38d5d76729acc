"""Connections, frames and the event loop that they run on."""
