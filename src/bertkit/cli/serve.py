"""`bertkit serve`: models over HTTP."""

from __future__ import annotations

from bertkit.errors import UsageError
from bertkit.serve.settings import Serving


def serve(asked: Serving) -> None:
    """Answer over HTTP with any number of models of any task.

    Texts of many requests are computed together. Only this machine can ask unless --host says otherwise.

    \b
    bertkit serve reviews-model
    bertkit serve reviews=models/a ner=models/b --port 9000
    BERTKIT_TOKEN=... bertkit serve MODEL --host 0.0.0.0
    """
    try:
        import fastapi  # noqa: F401
        import httptools  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as missing:
        raise UsageError(f"serving needs {missing.name}", "pip install 'bertkit[serve]'") from None
    from bertkit.serve.server import serve as run

    run(asked)
