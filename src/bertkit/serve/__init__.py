"""One server for any number of model folders. A request goes this way:

protocol.py (bytes and connections), limits.py (who may ask what, bodies, deadlines), routes.py and compatible.py
(what is asked), models.py (which model), operations.py (texts to tokens), batcher.py (which texts are computed
together), served.py (the model in memory).
"""

from bertkit.rooms import public

__all__, __getattr__ = public(
    __name__,
    {
        "app": "PAGE build",
        "batcher": "Batcher",
        "card": "sample_of",
        "limits": "PUBLIC",
        "metrics": "Metrics",
        "operations": "Listener Piece Write",
        "refusals": "RefusalError",
        "routes": "PROBLEMS",
        "served": "open_model",
        "settings": "Limits Serving named",
    },
)
