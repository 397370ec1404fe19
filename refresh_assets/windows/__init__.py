"""Refresh by time windows: metrics of an event log, one window a partition."""
