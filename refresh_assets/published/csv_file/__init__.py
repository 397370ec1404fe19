"""A published CSV file: its dialect, its header, and where in it a fault lies."""
