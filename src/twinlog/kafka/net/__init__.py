"""Connections, frames and the event loop they live on."""
