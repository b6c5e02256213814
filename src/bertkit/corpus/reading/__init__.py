"""Texts out of whatever people keep them in. `readers.py` is the door."""
