"""Models that are loaded when they are wanted, anew when their folder changes, and unloaded when memory is short."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import shutil
import signal
import socket
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from typer.testing import CliRunner, Result

import bertkit
from bertkit.cli import app
from bertkit.families import PRESETS
from bertkit.hub import ModelFolder, save_fine_tuned, save_model
from bertkit.nn import Bert
from bertkit.serve import Serving, open_model
from bertkit.text import Tokenizer
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


def bytes_of(folder: ModelFolder) -> int:
    """With a second copy of all but the words, for single requests."""
    return 4 * (2 * folder.parameters - folder.config.vocab_size * folder.config.hidden_size)


@pytest.fixture(scope="module")
def lazy(tmp_path_factory: pytest.TempPathFactory, folders: Path) -> Iterator[Server]:
    """One that loads when asked, with memory for two models; `qa` is damaged after its start."""
    need = bytes_of(ModelFolder(folders / "classify"))
    damaged = tmp_path_factory.mktemp("damaged") / "qa"
    shutil.copytree(folders / "qa", damaged)
    models = [folders / name for name in ("classify", "regress", "tag")]
    with running(*models, damaged, "--lazy", "--memory", int(2.5 * need), "--reload", "0") as started:
        weights = (damaged / "model.safetensors").read_bytes()
        (damaged / "model.safetensors").write_bytes(weights[:1000])
        yield started


def states(client: httpx.Client) -> dict[str, str]:
    return {each["id"]: each["state"] for each in client.get("/v1/models").json()["data"]}


def test_two_requests_for_a_model_that_is_loading_are_both_answered(lazy: Server):
    async def ask_both() -> list[int]:
        async with httpx.AsyncClient(base_url=lazy.url, timeout=60) as client:
            done = await asyncio.gather(*(client.post(PREDICT, json={"inputs": "a"}) for _ in range(2)))
            return [each.status_code for each in done]

    with lazy.client() as client:
        assert client.get("/readyz").status_code == 200
        assert set(states(client).values()) == {"not loaded"}
        assert asyncio.run(ask_both()) == [200, 200]
        assert 'bertkit_model_loads_total{model="classify",outcome="loaded"} 1.0' in client.get("/metrics").text


def test_models_make_room_for_each_other(lazy: Server, folders: Path):
    with lazy.client() as client:
        for name in ("classify", "regress", "classify", "tag"):
            answer(client, name)
        assert [name for name, state in states(client).items() if state == "ready"] == ["classify", "tag"]
        assert close(answer(client, "regress"), bertkit.load(folders / "regress", threads=1)("a value of a class"))
        assert [name for name, state in states(client).items() if state == "ready"] == ["regress", "tag"]
    assert "classify: unloaded, to make room for regress" in lazy.said


def test_a_model_that_cannot_be_loaded_leaves_the_others_served(lazy: Server):
    with lazy.client() as client:
        done = client.post("/v1/models/qa/predict", json={"inputs": {"question": "a", "context": "b"}})
        assert done.status_code == 503
        assert "could not be loaded" in done.json()["error"]["message"]
        assert "/" not in done.json()["error"]["message"]
        assert re.search(r"qa: .*model.safetensors", lazy.said)
        answer(client)


def test_models_that_do_not_fit_together_do_not_keep_each_other_from_answering(folders: Path):
    """Asked at once, over and over: one of them is answered, and the other is or is told to come again."""
    need = int(1.5 * bytes_of(ModelFolder(folders / "classify")))
    models = [folders / "classify", f"mine={folders / 'regress'}"]

    async def ask_both(url: str) -> list[tuple[int, int]]:
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            found = []
            for _ in range(3):
                asked = [
                    client.post(f"/v1/models/{name}/predict", json={"inputs": "a"}) for name in ("classify", "mine")
                ]
                first, second = await asyncio.gather(*asked)
                found.append((first.status_code, second.status_code))
            return found

    with running(*models, "--lazy", "--memory", need, "--reload", "0", "--limit", "request_seconds=20") as server:
        for both in asyncio.run(ask_both(server.url)):
            assert 200 in both
            assert set(both) <= {200, 503}
        with server.client() as client:
            told = client.post("/v1/models/mine/fill-mask", json={"inputs": "a"}).json()["error"]["message"]
            assert "mine" in told
            assert "regress" not in told.replace("regress:", "")  # what its folder is called


def test_a_changed_folder_that_is_too_large_for_the_memory_is_not_loaded(
    tmp_path: Path, folders: Path, tokenizer: Tokenizer
):
    folder = tmp_path / "classify"
    shutil.copytree(folders / "classify", folder)
    large = Bert(PRESETS["bert-mini"](vocab_size=tokenizer.vocab_size), pooler=False, nsp=False)
    save_model(tmp_path / "large", large, tokenizer, provenance={})
    need = int(1.2 * bytes_of(ModelFolder(folder)))
    with running(folder, "--memory", need, "--reload", "0.1") as server, server.client() as client:
        before = answer(client)
        shutil.rmtree(folder)
        (tmp_path / "large").rename(folder)
        server.wait_for("--memory allows")
        assert client.get("/v1/models/classify").json()["reload_refused"] is True
        assert answer(client) == before


@pytest.mark.parametrize("name", ["classify", "words", "writes"])
def test_a_model_that_nobody_holds_is_gone_at_once(folders: Path, name: str):
    """Without a search for garbage, which a server spares itself for what was there at its start."""
    predictor = open_model(str(folders / name), Serving(models=("a=b",)))
    weights = weakref.ref(next(predictor.encoder.model.parameters()))
    gc.disable()
    try:
        del predictor
        assert weights() is None
    finally:
        gc.enable()


def refused(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["serve", *map(str, arguments)])


def test_a_folder_that_is_no_model_is_told_before_anything_is_served(tmp_path: Path, folders: Path):
    for folder, told in ((tmp_path, "no config.json"), (tmp_path / "nowhere", "there is no folder")):
        done = refused(folders / "classify", folder, "--port", 0)
        assert done.exit_code == 3, done.output
        assert told in done.stderr


def test_a_model_larger_than_the_memory_that_is_allowed_is_refused(folders: Path):
    done = refused(folders / "classify", "--memory", "1M", "--port", 0)
    assert done.exit_code == 3
    assert "--memory allows 1,048,576" in done.stderr


def test_a_port_that_is_taken_is_told(folders: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = refused(folders / "classify", "--port", taken.getsockname()[1])
    assert done.exit_code == 2
    assert "Choose another with --port" in done.stderr


def test_weights_that_are_damaged_end_the_server_at_its_start(tmp_path: Path, folders: Path):
    shutil.copytree(folders / "tag", tmp_path / "tag")
    weights = (tmp_path / "tag" / "model.safetensors").read_bytes()
    (tmp_path / "tag" / "model.safetensors").write_bytes(weights[:-8] + b"12345678")
    done = bertkit_command("serve", tmp_path / "tag", "--port", 0)
    assert done.returncode == 3, done.stderr
    assert "has changed since it was written" in done.stderr
    assert "Traceback" not in done.stderr


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


@pytest.mark.timeout(180)
@pytest.mark.parametrize("fault", ["missing", "damaged"])
def test_a_worker_that_cannot_begin_again_does_not_stop_the_others(folders: Path, tmp_path: Path, fault: str):
    place, weights = tmp_path / "classify", tmp_path / "classify" / "model.safetensors"
    shutil.copytree(folders / "classify", place)
    whole = weights.read_bytes()
    with running(place, "--workers", "2", "--reload", "0") as server:
        server.wait_for(r"(?s)ready.*ready")
        place.rename(tmp_path / "away") if fault == "missing" else weights.write_bytes(whole[:-8] + b"12345678")
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
        workers = [int(each) for each in children if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]
        os.kill(workers[0], signal.SIGKILL)
        server.wait_for("a worker could not begin: the others go on")
        with server.client() as client:
            assert client.post("/v1/models/classify/predict", json={"inputs": "a"}).status_code == 200
        (tmp_path / "away").rename(place) if fault == "missing" else weights.write_bytes(whole)
        server.wait_for(r"(?s)ready.*ready.*ready")
        assert "Traceback" not in server.said
        assert server.stop() == 0


@pytest.mark.parametrize("lazy", [(), ("--lazy",)])
def test_workers_none_of_which_can_begin_end_with_a_sentence(folders: Path, tmp_path: Path, lazy: tuple[str, ...]):
    shutil.copytree(folders / "tag", tmp_path / "tag")
    weights = (tmp_path / "tag" / "model.safetensors").read_bytes()
    (tmp_path / "tag" / "model.safetensors").write_bytes(weights[:-8] + b"12345678")
    if lazy:
        (tmp_path / "tag" / "config.json").unlink()
    done = bertkit_command("serve", tmp_path / "tag", "--port", 0, "--workers", 2, *lazy)
    assert done.returncode in (1, 3), done.stderr
    assert "Traceback" not in done.stderr
