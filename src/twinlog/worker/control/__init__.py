"""Requests of operators about single topics of a running flow: pause, restart from, skip to, retry."""
