"""Models that are loaded when they are wanted, anew when their folder changes, and unloaded when memory is short."""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

import bertkit
from bertkit.interop.fine_tuned import save_fine_tuned
from bertkit.interop.folder import ModelFolder
from bertkit.model.bert import Bert
from bertkit.text.tokenizer import Tokenizer
from commands import bertkit_command
from servers import TASKS, Server, close, new_model, running

PREDICT = "/v1/models/classify/predict"


def answer(client: httpx.Client, model: str = "classify") -> Any:
    done = client.post(f"/v1/models/{model}/predict", json={"inputs": "a value of a class"})
    assert done.status_code == 200, done.text
    return done.json()["answers"][0]


def test_a_folder_that_changes_is_loaded_anew_and_a_bad_one_is_not(
    tmp_path: Path, folders: Path, tiny: Bert, tokenizer: Tokenizer
):
    folder = tmp_path / "classify"
    shutil.copytree(folders / "classify", folder)
    with running(folder, "--reload", "0.1") as server, server.client() as client:
        first = answer(client)
        torch.manual_seed(7)
        task = TASKS["classify"]
        save_fine_tuned(folder, new_model(tiny, task), task, tokenizer, metrics={}, provenance={}, overwrite=True)
        server.wait_for("classify: loaded anew")
        second = answer(client)
        assert close(second, bertkit.load(folder, threads=1)("a value of a class"))
        assert not close(first, second)

        weights = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(weights[: len(weights) // 2])
        server.wait_for("the old model goes on")
        assert answer(client) == second
        facts = client.get("/v1/models/classify")
        assert facts.json()["reload_refused"] is True
        assert str(tmp_path) not in facts.text

        shutil.rmtree(folder)
        assert answer(client) == second
        shutil.copytree(folders / "classify", folder)
        server.wait_for(r"(?s)loaded anew.*loaded anew")
        assert close(answer(client), first)
        assert client.get("/v1/models/classify").json()["reload_refused"] is False


def states(client: httpx.Client) -> dict[str, str]:
    return {each["id"]: each["state"] for each in client.get("/v1/models").json()["data"]}


def test_models_are_loaded_when_asked_for_and_make_room_for_each_other(folders: Path):
    need = 4 * ModelFolder(folders / "classify").parameters
    models = [folders / name for name in ("classify", "regress", "tag")]
    with running(*models, "--lazy", "--memory", int(2.5 * need), "--reload", "0") as server, server.client() as client:
        assert client.get("/readyz").status_code == 200
        assert set(states(client).values()) == {"not loaded"}
        for name in ("classify", "regress", "classify", "tag"):
            answer(client, name)
        assert states(client) == {"classify": "ready", "regress": "not loaded", "tag": "ready"}
        assert close(answer(client, "regress"), bertkit.load(folders / "regress", threads=1)("a value of a class"))
        assert states(client) == {"classify": "not loaded", "regress": "ready", "tag": "ready"}
        assert "classify: unloaded, to make room for regress" in server.said


def test_two_requests_for_a_model_that_is_loading_are_both_answered(folders: Path):
    async def ask_both(server: Server) -> list[int]:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            done = await asyncio.gather(*(client.post(PREDICT, json={"inputs": "a"}) for _ in range(2)))
            return [each.status_code for each in done]

    with running(folders / "classify", "--lazy", "--reload", "0") as server, server.client() as client:
        assert asyncio.run(ask_both(server)) == [200, 200]
        assert 'bertkit_model_loads_total{model="classify",outcome="loaded"} 1.0' in client.get("/metrics").text


def test_a_model_that_cannot_be_loaded_when_asked_for_leaves_the_others_served(tmp_path: Path, folders: Path):
    shutil.copytree(folders / "tag", tmp_path / "tag")
    weights = tmp_path / "tag" / "model.safetensors"
    with running(folders / "classify", tmp_path / "tag", "--lazy") as server, server.client() as client:
        weights.write_bytes(weights.read_bytes()[:1000])
        done = client.post("/v1/models/tag/predict", json={"inputs": "a"})
        assert done.status_code == 503
        assert "could not be loaded" in done.json()["error"]["message"]
        assert str(tmp_path) not in done.text
        assert str(tmp_path) in server.said
        answer(client)


def test_a_folder_that_is_no_model_is_told_before_anything_is_served(tmp_path: Path, folders: Path):
    for folder, told in ((tmp_path, "no config.json"), (tmp_path / "nowhere", "there is no folder")):
        done = bertkit_command("serve", folders / "classify", folder, "--port", 0)
        assert done.returncode == 3, done.stderr
        assert told in done.stderr
        assert "Traceback" not in done.stderr


def test_weights_that_are_damaged_end_the_server_at_its_start(tmp_path: Path, folders: Path):
    shutil.copytree(folders / "tag", tmp_path / "tag")
    weights = (tmp_path / "tag" / "model.safetensors").read_bytes()
    (tmp_path / "tag" / "model.safetensors").write_bytes(weights[:-8] + b"12345678")
    done = bertkit_command("serve", tmp_path / "tag", "--port", 0)
    assert done.returncode == 3, done.stderr
    assert "has changed since it was written" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_larger_than_the_memory_that_is_allowed_is_refused(folders: Path):
    done = bertkit_command("serve", folders / "classify", "--memory", "1M", "--port", 0)
    assert done.returncode == 3
    assert "--memory allows 1,048,576" in done.stderr


def test_a_port_that_is_taken_is_told(folders: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = bertkit_command("serve", folders / "classify", "--port", taken.getsockname()[1])
    assert done.returncode == 2
    assert "Choose another with --port" in done.stderr


@pytest.mark.timeout(180)
def test_several_processes_answer_on_one_port(folders: Path):
    arguments = (folders / "classify", "--workers", "2", "--reload", "0")
    with running(*arguments) as server:
        server.wait_for(r"(?s)ready.*ready")
        expected = bertkit.load(folders / "classify", threads=1)("a value of a class")
        for _ in range(8):
            with server.client() as client:
                assert close(answer(client), expected)
        with server.client() as client:
            figures = client.get("/metrics").text
        assert re.search(r'bertkit_inputs_total\{model="classify"\} 8.0', figures), figures
        assert server.stop() == 0
        assert server.said.count("stopped: ") == 2
        assert "Traceback" not in server.said
