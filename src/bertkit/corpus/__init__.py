"""Text for pretraining: read (`reading/`), made into shards (`preparing/`), and read back as samples (`sampling/`).

In between lies the prepared corpus: `folder.py` and `shards.py`.
"""
