"""From what a user typed to a folder: a path, or the name of a model on the Hugging Face hub."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from bertkit.errors import HubError, ModelFolderError

CONNECT_SECONDS = 0.5
WANTED = ["*.json", "*.txt", "*.safetensors"]


def find_folder(folder_or_name: str | Path) -> Path:
    """The folder itself if it is one; else the hub's model of that name, from the local cache if it is there."""
    name = str(folder_or_name)
    path = Path(name).expanduser()
    if name and path.is_dir():
        return path
    if name and path.exists():
        raise ModelFolderError(f"{path} is a file", "Name the model folder that it is in.")
    if not re.fullmatch(r"[\w][\w.-]*(/[\w][\w.-]*)?", name) or name.endswith((".", "-")) or ".." in name:
        raise ModelFolderError(f"there is no folder {name!r}", "Check the path.")
    return _from_hub(name)


def _from_hub(name: str) -> Path:
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        cached = Path(snapshot_download(name, allow_patterns=WANTED, local_files_only=True))
        if (cached / "config.json").exists() and any(cached.glob("*.safetensors")):
            return cached  # and not only what somebody once fetched of it
    except (LocalEntryNotFoundError, OSError, ValueError):
        pass  # not in the cache
    if constants.HF_HUB_OFFLINE:
        raise HubError(
            f"{name} is neither a folder here nor in the local cache, and HF_HUB_OFFLINE is set",
            "Unset it, or copy the model folder to this machine.",
        )
    if not _reachable(constants.ENDPOINT):
        raise HubError(
            f"{name} is neither a folder here nor in the local cache, and {urlsplit(constants.ENDPOINT).hostname} "
            "cannot be reached",
            "Check the path or the network, or copy the model folder to this machine.",
        )
    try:
        return Path(snapshot_download(name, allow_patterns=WANTED))
    except (HfHubHTTPError, OSError, ValueError) as problem:
        reason = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
        raise HubError(
            f"{name} could not be fetched from the hub: {reason}", "Check the name and the network."
        ) from None


def _reachable(endpoint: str) -> bool:
    """One quick attempt to connect, because the hub's client tries again for a long time when there is no network."""
    url = urlsplit(endpoint)
    proxy = getproxies().get(url.scheme)
    if proxy and not proxy_bypass(url.hostname or ""):
        url = urlsplit(proxy if "//" in proxy else f"//{proxy}")
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        seconds = float(os.environ.get("BERTKIT_CONNECT_SECONDS", CONNECT_SECONDS))
    except ValueError:
        seconds = CONNECT_SECONDS
    connected = threading.Event()

    def connect() -> None:
        with contextlib.suppress(OSError), socket.create_connection((url.hostname or "", port), timeout=seconds):
            connected.set()

    # In a thread, because looking a name up has no time limit of its own.
    attempt = threading.Thread(target=connect, daemon=True)
    attempt.start()
    attempt.join(seconds)
    return connected.is_set()
