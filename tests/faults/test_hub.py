"""Names that are not folders, without a network: a clear answer in well under a second."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from bertkit.errors import HubError
from bertkit.hub import find_folder


def test_offline_is_said_at_once_by_the_command_line(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nothing listens there
    start = time.perf_counter()
    command = [sys.executable, "-m", "bertkit", "embed", "some/model", "-t", "text"]
    child = subprocess.run(command, capture_output=True, text=True)
    assert child.returncode == 3
    assert "some/model is neither a folder here nor in the local cache" in child.stderr
    assert child.stderr.count("\n") == 1
    assert time.perf_counter() - start < 5, "no stack of retries"


def test_a_network_that_swallows_everything_is_given_up(monkeypatch):
    """A server that takes the connection's place in its queue and never answers is not waited for."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for client in waiting:
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
        start = time.perf_counter()
        with pytest.raises(HubError, match="cannot be reached"):
            find_folder("some/model")
        assert time.perf_counter() - start < 2
        for client in waiting:
            client.close()


def test_told_to_stay_offline_it_does(monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match="HF_HUB_OFFLINE is set"):
        find_folder("some/model")


def test_a_model_in_the_local_cache_needs_no_network(monkeypatch, tmp_path, tiny_folder):
    from huggingface_hub import constants

    commit = "0" * 40
    cached = tmp_path / "models--some--model"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text(commit)
    (cached / "snapshots").mkdir()
    (cached / "snapshots" / commit).symlink_to(tiny_folder, target_is_directory=True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    assert (find_folder("some/model") / "config.json").exists()
    (cached / "snapshots" / commit).unlink()
    (cached / "snapshots" / commit).mkdir()
    (cached / "snapshots" / commit / "config.json").write_text("{}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match="neither a folder here nor in the local cache"):
        find_folder("some/model")  # somebody fetched only a part of it


def test_a_real_download_from_a_hub_on_this_machine(monkeypatch, tmp_path, tiny_folder: Path):
    """A server that speaks as much of the hub's protocol as fetching takes."""
    commit = "1" * 40
    names = [file.name for file in tiny_folder.iterdir()]

    class Hub(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(body=True)

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def answer(self, body: bool) -> None:
            path = self.path.split("?")[0]
            if path.startswith("/api/models/some/model"):
                files = [
                    {
                        "rfilename": name,
                        "type": "file",
                        "path": name,
                        "size": (tiny_folder / name).stat().st_size,
                        "oid": "0" * 40,
                    }
                    for name in names
                ]
                content = json.dumps(
                    files if "/tree/" in path else {"id": "some/model", "sha": commit, "siblings": files}
                ).encode()
            elif path.startswith(f"/some/model/resolve/{commit}/") and path.rsplit("/", 1)[1] in names:
                content = (tiny_folder / path.rsplit("/", 1)[1]).read_bytes()
            else:
                self.send_response(404)
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", commit)
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    code = "import sys, bertkit; print(bertkit.load_encoder(sys.argv[1]).embed('a text').shape)"
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "0",
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HOME": str(tmp_path),
        "HF_HUB_DISABLE_XET": "1",
    }
    try:
        for name, expected in (("some/model", "(128,)"), ("some/other", "")):
            child = subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, env=environment)
            assert child.stdout.strip() == expected, child.stderr
        assert "some/other could not be fetched" in child.stderr
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
