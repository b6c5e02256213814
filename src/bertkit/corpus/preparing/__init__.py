"""Raw text to shards. `prepare.py` tells how."""
