"""The commands of `refresh-assets`, one module a subject; `cli.py` gathers them."""
