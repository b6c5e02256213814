"""One server for any number of model folders. A request goes this way:

protocol.py (bytes and connections), limits.py (who may ask what, bodies, deadlines), routes.py and compatible.py
(what is asked), models.py (which model), operations.py (texts to tokens), batcher.py (which texts are computed
together), runtime.py (the model that computes).
"""
