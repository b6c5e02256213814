"""The page at / in a real browser: every form used, in both languages, by mouse and by keyboard."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

selenium = pytest.importorskip("selenium", reason="selenium is not installed")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.select import Select  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

from bertkit.hub import save_fine_tuned  # noqa: E402
from bertkit.nn import Bert  # noqa: E402
from bertkit.tasks import Classify  # noqa: E402
from bertkit.text import Tokenizer  # noqa: E402
from servers import Server, new_model, running  # noqa: E402

ATTACK = "<img src=x onerror=\"document.title='owned'\">"


class Page:
    """What a person does with it."""

    def __init__(self, browser: Any, server: Server) -> None:
        self.browser, self.server = browser, server

    def open(self, model: str = "", view: str = "", **values: str) -> Page:
        query = f"?{urlencode(values)}" if values else ""
        self.browser.get("about:blank")
        self.browser.get(f"{self.server.url}/#{model}/{view}{query}")
        self.wait(lambda: self.all("h1"))
        if values:
            self.wait_for_answer()
        return self

    def all(self, css: str) -> list[Any]:
        return self.browser.find_elements(By.CSS_SELECTOR, css)

    def one(self, css: str) -> Any:
        return self.browser.find_element(By.CSS_SELECTOR, css)

    def wait(self, condition: Any) -> Any:
        return WebDriverWait(self.browser, 20, poll_frequency=0.02).until(lambda _: condition())

    def wait_for_answer(self) -> None:
        self.wait(lambda: self.all(".result:not([aria-busy]) > *"))

    def write(self, name: str, text: str) -> None:
        field = self.one(f"[name={name}]")
        field.clear()
        field.send_keys(text)

    def ask(self, **values: str) -> Page:
        for name, text in values.items():
            self.write(name, text)
        self.one("button.main").click()
        self.wait_for_answer()
        return self

    def texts(self, css: str) -> list[str]:
        """All at one moment, so that nothing is replaced in between."""
        code = "return [...document.querySelectorAll(arguments[0])].map((each) => each.innerText.trim())"
        return self.browser.execute_script(code, css)

    def shares(self) -> dict[str, float]:
        names, shares = self.texts(".bars .name"), self.texts(".bars .share")
        return {name: float(share.rstrip(" %")) / 100 for name, share in zip(names, shares, strict=True)}

    def flow(self) -> str:
        return self.one(".flow").get_property("textContent")


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Page]:
    """Opened afresh, in English and light; nothing may have gone wrong in it by the end."""
    browser.get(f"{server.url}/")
    browser.execute_script("localStorage.clear(); localStorage.setItem('bertkit.language', 'en')")
    browser.get_log("browser")
    yield Page(browser, server)
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    assert browser.title.endswith("bertkit")


@contextmanager
def page_of_another(browser: Any, *arguments: object, **options: Any) -> Iterator[Page]:
    """On a server of its own. The page is left before that stops: it asks how the queue is as long as it is open."""
    with running(*arguments, "--reload", "0", **options) as started:
        try:
            yield Page(browser, started)
        finally:
            browser.get("about:blank")
            browser.get_log("browser")


def predicted(client: httpx.Client, model: str, inputs: Any) -> Any:
    return client.post(f"/v1/models/{model}/predict", json={"inputs": inputs}).json()["answers"][0]


def test_every_model_is_listed_with_the_form_of_its_task(page: Page):
    page.open()
    assert page.texts("#models .model") == ["classify", "regress", "tag", "qa", "choice", "cosine", "words", "writes"]
    assert page.one("h1").text == "classify"
    firsts = {}
    for name in page.texts("#models .model"):
        page.one(f"#models a[href='#{name}']").click()
        page.wait(lambda name=name: page.texts("h1") == [name])
        firsts[name] = page.texts(".tabs a")[0]
    assert firsts == {
        "classify": "Classify",
        "regress": "Score",
        "tag": "Tag",
        "qa": "Answer",
        "choice": "Choose",
        "cosine": "Similarity",
        "words": "Fill in",
        "writes": "Write on",
    }


@pytest.mark.parametrize("text", ["The value of an object", "我们喜欢学习自然语言处理。"])
def test_classes_are_shown_with_their_probabilities(page: Page, client: httpx.Client, text: str):
    page.open("classify", "classify").ask(text=text)
    said = predicted(client, "classify", text)
    assert page.one(".verdict").text == said["label"]
    assert page.shares() == pytest.approx(said["probabilities"], abs=0.001)
    page.ask(pair="of a class")
    assert page.shares() == pytest.approx(
        predicted(client, "classify", {"text": text, "pair": "of a class"})["probabilities"], abs=0.001
    )


@pytest.mark.parametrize("text", ["The value \U0001f600 of an object", "我们喜欢学习自然语言处理。"])
def test_the_words_that_a_label_hung_on_are_shaded(page: Page, client: httpx.Client, text: str):
    page.open("classify", "classify").ask(text=text)
    best = page.one(".verdict").text
    assert page.one(".why h2").text == f"What “{best}” hung on"
    assert page.one(".reasons").get_property("textContent") == text
    other = "neg" if best == "pos" else "pos"
    next(each for each in page.all(".bars button") if each.text == other).click()
    page.wait(lambda: page.texts(".why h2") == [f"What “{other}” hung on"])
    asked = {"text": text, "label": other}
    (found,) = client.post("/v1/models/classify/explain", json=asked).json()["answers"]
    shaded = [each["word"] for each in found["words"] if each["score"] >= 0]
    assert page.texts(".reasons .for") == shaded
    assert f"label={other}" in page.browser.current_url


def test_a_number_is_shown(page: Page, client: httpx.Client):
    page.open("regress", "regress").ask(text="a value")
    assert float(page.one(".figure").text) == pytest.approx(predicted(client, "regress", "a value")["score"], rel=1e-3)


@pytest.mark.parametrize("text", ["The class  of an object, in Paris.", "苹果公司发布了新手机，他吃了一个苹果。"])
def test_what_was_tagged_is_marked_in_the_text_as_it_was_written(page: Page, client: httpx.Client, text: str):
    page.open("tag", "tag").ask(text=text)
    found = [each["type"] for each in predicted(client, "tag", {"text": text})["entities"]]
    assert found
    assert page.texts(".entity small") == found
    page.browser.execute_script("document.querySelectorAll('.entity small').forEach((each) => each.remove())")
    assert page.flow() == text


@pytest.mark.parametrize(
    ("question", "passage"),
    [("What is it?", "It is an object \U0001f600 of a class."), ("他吃了什么？", "𠮷他吃了一个苹果。")],
)
def test_the_answer_is_marked_in_the_passage(page: Page, client: httpx.Client, question: str, passage: str):
    """Also behind characters that a browser counts twice."""
    page.open("qa", "qa", question=question, context=passage)
    said = predicted(client, "qa", {"question": question, "context": passage})
    assert page.one("mark").get_property("textContent") == said["answer"]
    assert page.flow() == passage
    assert page.texts(".bars .name") == [each["answer"].strip() for each in said["best"][1:]]


def test_endings_are_weighed(page: Page, client: httpx.Client):
    page.open("choice", "choice").ask(premise="The value", endings="is none\nwas given\n\n有一个名字")
    said = predicted(client, "choice", {"premise": "The value", "endings": ["is none", "was given", "有一个名字"]})
    assert page.one(".verdict").text == said["ending"]
    assert list(page.shares().values()) == pytest.approx(said["probabilities"], abs=0.001)
    page.ask(endings="only one")
    assert page.one("[role=alert]").text == "Write at least two lines."


@pytest.mark.parametrize(("text", "hidden"), [("The value of an object.", "value"), ("我们喜欢学习。", "喜")])
def test_a_word_that_is_clicked_is_hidden_and_guessed(page: Page, client: httpx.Client, text: str, hidden: str):
    page.open("words", "fill").ask(text=text)
    assert page.all(".guesses") == []
    page.one(f"[aria-label='Hide “{hidden}”']").click()
    page.wait(lambda: page.all(".guesses"))
    asked = {"inputs": text.replace(hidden, "[MASK]", 1)}
    (mask,) = client.post("/v1/models/words/fill-mask", json=asked).json()["answers"][0]["masks"]
    assert page.texts(".bars .name") == [each["token"] for each in mask]
    assert page.one(".guesses h3").text == f"Instead of “{hidden}”"
    page.one(f"[aria-label='Show “{hidden}”']").send_keys(Keys.SPACE)
    page.wait(lambda: not page.all(".guesses"))


def test_a_mask_that_was_written_is_guessed_too(page: Page):
    page.open("words", "fill").ask(text="The [MASK] of an [MASK].")
    assert page.texts(".guesses h3") == ["For the gap", "For the gap"]


@pytest.mark.parametrize("text", ["The import statement", "从前有一座山"])
def test_a_gpt_writes_on_from_a_beginning(page: Page, client: httpx.Client, text: str):
    page.open("writes").ask(text=text)
    page.wait(lambda: "64" in page.one(".result .note").text)
    asked = {"inputs": text, "max_tokens": 64}
    (answer,) = client.post("/v1/models/writes/generate", json=asked).json()["answers"]
    assert page.flow() == text + answer["texts"][0]["text"]


def test_choosing_a_token_shows_where_it_looks(page: Page, client: httpx.Client):
    page.open("words", "attention").ask(text="The value of an object", pair="我们喜欢")
    Select(page.one("[name=layer]")).select_by_value("1")
    Select(page.one("[name=head]")).select_by_value("1")
    page.wait_for_answer()
    page.wait(lambda: "layer=1&head=1" in page.browser.current_url)
    asked = {"text": "The value of an object", "pair": "我们喜欢", "layer": 1, "head": 1}
    (found,) = client.post("/v1/models/words/attention", json=asked).json()["answers"]
    at = found["surfaces"].index("喜")
    page.wait(lambda: not page.all("[aria-busy]"))
    assert page.texts(".token") == found["surfaces"]
    page.all(".token")[at].click()
    assert page.one(".result h2").text == "Where “喜” looks"
    assert max(page.shares().values()) == pytest.approx(max(found["maps"][0][0][at]), abs=0.001)
    assert f"token={at}" in page.browser.current_url


def test_sentences_are_compared(page: Page, client: httpx.Client):
    sentences = ["a value", "an object", "我们喜欢学习"]
    page.open("cosine", "similarity").ask(sentences="\n".join(sentences))
    cells = [float(text) for text in page.texts(".cell")]
    said = predicted(client, "cosine", {"text": sentences[0], "pair": sentences[2]})
    assert len(cells) == 9
    assert cells[0] == cells[4] == cells[8] == 1
    assert cells[2] == cells[6] == pytest.approx(said["cosine"], abs=0.006)


@pytest.mark.parametrize(
    ("word", "sentences"),
    [
        ("value", ["The value of a list.", "A value, and a Value.", "No such word."]),
        ("苹果", ["他吃了一个苹果。", "苹果公司发布了新手机。"]),
    ],
)
def test_a_word_is_compared_in_its_sentences(page: Page, word: str, sentences: list[str]):
    page.open("words", "senses", word=word, sentences="\n".join(sentences))
    marks = page.texts(".occurrence mark")
    assert [mark.lower() for mark in marks] == [word] * sum(text.lower().count(word) for text in sentences)
    assert len(page.texts(".cell")) == len(marks) ** 2
    assert len(set(page.texts(".group"))) != 1, "one group has no letter"
    for mark, text in zip(page.texts(".number"), page.texts(".occurrence"), strict=True):
        assert sentences[int(mark) - 1] == text
    assert word in page.all(".result h2")[0].text
    page.all(".occurrence")[-1].click()
    assert page.all(".occurrence")[-1].get_attribute("aria-pressed") == "true"
    assert len(page.texts(".bars li")) == 6


def test_there_are_as_many_groups_of_senses_as_the_vectors_have(page: Page):
    """Of cosines: within a group near 0.9, between groups near 0.6; some noise on all of them."""
    page.open()

    def groups(sizes: list[int], between: float = 0.6) -> list[int]:
        owners = [number for number, size in enumerate(sizes) for _ in range(size)]
        noise = random.Random(len(owners))
        near = [[1.0] * len(owners) for _ in owners]
        for i, j in itertools.combinations(range(len(owners)), 2):
            near[i][j] = near[j][i] = (0.9 if owners[i] == owners[j] else between) + noise.uniform(-0.04, 0.04)
        code = "import('./vectors.js').then((all) => arguments[1](all.groupsOf(arguments[0])))"
        return page.browser.execute_async_script(code, near)

    assert groups([4, 3]) == [0] * 4 + [1] * 3
    assert groups([2, 3, 2]) == [0, 0, 1, 1, 1, 2, 2]
    assert groups([3, 3, 3, 3]) == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert groups([7]) == [0] * 7
    assert groups([2]) == [0, 0]
    assert groups([1]) == [0]
    assert groups([3, 3], between=0.9) == [0] * 6


def test_likeness_is_shaded_on_the_scale_that_it_has(page: Page):
    page.open("cosine", "similarity").ask(sentences="a value\nan object\n我们喜欢学习")
    cells = [float(text) for text in page.texts(".cell")]
    share = "return [...document.querySelectorAll('.cell')].map((each) => +each.style.getPropertyValue('--share'))"
    shares = page.browser.execute_script(share)
    ends = shares[cells.index(max(cells))], shares[cells.index(min(cells))]
    assert ends == pytest.approx((1, 0), abs=1e-6)
    assert page.one(".heat caption").text.endswith(f"here from {min(cells):.2f} to 1.00")


def test_a_second_box_is_there_only_for_pairs(browser: Any, tmp_path: Path, tiny: Bert, tokenizer: Tokenizer):
    boxes = {}
    for pairs in (True, False):
        task = Classify(classes=("neg", "pos"), max_length=64, pairs=pairs)
        save_fine_tuned(tmp_path / str(pairs), new_model(tiny, task), task, tokenizer, metrics={}, provenance={})
    with page_of_another(browser, tmp_path / "True", tmp_path / "False", "--lazy") as page:
        for name in ("True", "False"):
            page.open(name, "classify").wait(lambda name=name: page.texts("h1") == [name])
            boxes[name] = [field.get_attribute("name") for field in page.all("form textarea")]
            page.ask(**dict.fromkeys(boxes[name], "a value"))
            assert page.one(".verdict").text in ("neg", "pos")
    assert boxes == {"True": ["text", "pair"], "False": ["text"]}


def test_the_form_begins_with_the_sample_of_the_models_card(browser: Any, tmp_path: Path, folders: Path):
    shutil.copytree(folders / "qa", tmp_path / "qa")
    card = "---\nlicense: mit\nwidget:\n- text: Who came?\n  context: Ann came.\n---\n# A model\n"
    (tmp_path / "qa" / "README.md").write_text(card)
    with page_of_another(browser, tmp_path / "qa") as page:
        page.open("qa", "qa")
        fields = [page.one(f"[name={name}]").get_property("value") for name in ("question", "context")]
        assert fields == ["Who came?", "Ann came."]


def test_what_labels_a_model_knows_is_said(page: Page):
    page.open("classify")
    assert page.one(".lead").text == "Tells which label a text has. It knows: neg, pos."
    page.open("tag")
    assert page.one(".lead").text.endswith("It knows: LOC.")


def test_the_address_restores_what_was_seen(page: Page):
    page.open("words", "fill").ask(text="The value of 100% & more? 我们")
    page.one("[aria-label='Hide “value”']").click()
    page.wait(lambda: page.all(".guesses"))
    seen, address = page.texts(".result"), page.browser.current_url
    page.browser.get("about:blank")
    page.browser.get(address)
    page.wait(lambda: page.all(".guesses"))
    assert page.texts(".result") == seen
    assert page.one("[name=text]").get_property("value") == "The value of 100% & more? 我们"
    page.open("attention-of-no-model", "nothing")
    assert page.one("h1").text == "classify", "an address that leads nowhere shows the first model"


def test_text_from_people_never_becomes_html(page: Page):
    forms = {
        "classify": {"text": ATTACK, "pair": ATTACK},
        "tag": {"text": ATTACK},
        "qa": {"question": ATTACK, "context": ATTACK},
        "choice": {"premise": ATTACK, "endings": f"{ATTACK}\n{ATTACK} b"},
        "fill": {"text": f"{ATTACK} [MASK]"},
        "similarity": {"sentences": f"{ATTACK}\n{ATTACK}"},
        "senses": {"word": "src", "sentences": f"{ATTACK}\n{ATTACK}"},
        "attention": {"text": ATTACK, "pair": ATTACK, "layer": "0", "head": "0", "token": "3"},
    }
    for view, values in forms.items():
        page.open(view if view in ("classify", "tag", "qa", "choice") else "words", view, **values)
        assert page.all("main img, main script") == [], view
        assert page.all("[role=alert]") == [], view
        assert page.browser.title != "owned", view
    page.open(ATTACK.replace("/", "%2F"), ATTACK)
    assert page.all("main img, main script") == []


def test_a_model_that_was_loaded_when_asked_has_its_whole_form_and_its_labels_are_only_text(
    browser: Any, tiny: Bert, tokenizer: Tokenizer, tmp_path: Path
):
    task = Classify(classes=(ATTACK, "good"), max_length=64)
    save_fine_tuned(tmp_path / "late", new_model(tiny, task), task, tokenizer, metrics={}, provenance={})
    with page_of_another(browser, tmp_path / "late", "--lazy") as page:
        page.open()
        assert page.texts("#models .about") == ["loads when asked"]
        page.ask(text="a value")
        page.wait(lambda: page.all(".why"))
        assert set(page.texts(".bars .name")) == {ATTACK, "good"}
        for label in (ATTACK, "good"):
            next(each for each in page.all(".bars button") if each.text == label).click()
            page.wait(lambda label=label: page.texts(".why h2") == [f"What “{label}” hung on"])
        assert page.all("main img") == []
        page.open("late", "attention")
        assert len(page.all("[name=layer] option")) == tiny.config.num_hidden_layers
        assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_the_language_is_switched_and_remembered(page: Page):
    page.open("classify", "classify").ask(text="a value")
    page.one("#language").click()
    page.wait_for_answer()
    assert page.texts(".tabs a") == ["分类", "相似度", "词义", "注意力"]
    assert page.one("html").get_attribute("lang") == "zh-CN"
    assert page.one("[name=text]").get_property("value") == "a value"
    page.open("words", "fill")
    assert page.one("button.main").text == "提问"
    assert page.one("[name=text]").get_property("value") == "北京是中国的首都。"


def test_every_word_of_the_page_is_in_both_languages(page: Page):
    page.open()
    code = "import('./words.js').then((words) => arguments[0](words.missing()))"
    assert page.browser.execute_async_script(code) == []


def test_light_and_dark_are_as_the_browser_has_them_and_can_be_switched(page: Page):
    def background() -> str:
        return page.one("body").value_of_css_property("background-color")

    def prefer(scheme: str) -> None:
        wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)

    prefer("light")
    page.open()
    light = background()
    prefer("dark")
    dark = background()
    assert light != dark
    page.one("#theme").click()
    assert background() == light
    page.open("tag")
    assert background() == light, "remembered"
    prefer("")


def test_a_refusal_is_told(page: Page):
    page.open("words", "attention").ask(text="")
    assert "empty" in page.one("[role=alert]").text
    page.browser.get_log("browser")  # the browser notes each refusal


def test_the_keyboard_is_enough(page: Page):
    page.open("classify", "classify")
    focused = lambda: page.browser.switch_to.active_element  # noqa: E731
    page.one("body").send_keys(Keys.TAB)
    assert focused().get_attribute("id") == "skip"
    focused().send_keys(Keys.ENTER)
    assert focused().get_attribute("id") == "main"
    for _ in range(12):
        focused().send_keys(Keys.TAB)
        if focused().get_attribute("name") == "text":
            break
    focused().send_keys(" more", Keys.CONTROL, Keys.ENTER)
    page.wait_for_answer()
    assert page.one(".verdict").text in ("neg", "pos")


def test_speed_and_queue_are_shown(page: Page):
    page.open("classify", "classify").ask(text="a value")
    page.wait(lambda: " ms · 0 in the queue" in page.one("#status").text)


def test_on_a_phone_nothing_is_wider_than_the_window(page: Page):
    width = 390
    size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for model, view in (("classify", "classify"), ("tag", "tag"), ("words", "senses"), ("words", "attention")):
            page.open(model, view).ask()
            assert page.browser.execute_script("return document.documentElement.scrollWidth") <= width, view
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def complaints(browser: Any, rules: dict[str, Any] | None = None) -> list[tuple[str, list[str]]]:
    """What axe finds wrong with the page as it is now: the rule, and where."""
    axe = pytest.importorskip("axe_core_python.selenium", reason="axe-core-python is not installed").Axe()
    found = axe.run(browser, options=rules)["violations"]
    return [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in found]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_to_complain_of(page: Page, theme: str):
    """Names for screen readers, contrast, landmarks: what can be found by machine."""
    page.browser.execute_script("localStorage.setItem('bertkit.theme', arguments[0])", theme)
    rules = {"runOnly": ["color-contrast"]} if theme == "dark" else None
    views = {"classify": "classify", "tag": "tag", "qa": "qa", "similarity": "cosine"}
    views |= dict.fromkeys(("senses", "fill", "attention"), "words")
    if theme == "dark":  # colours that the others do not have
        views = {"classify": "classify", "tag": "tag", "fill": "words"}
    for view, model in views.items():
        page.open(model, view).ask()
        if view in ("fill", "attention"):
            page.all(".words button")[2].click()
            page.wait(lambda: page.all(".bars li"))
        assert complaints(page.browser, rules) == [], view


def test_nothing_comes_from_elsewhere(page: Page, client: httpx.Client):
    page.open("words", "attention").ask()
    code = "return performance.getEntriesByType('resource').map((each) => each.name)"
    asked = page.browser.execute_script(code)
    assert asked
    assert {each.split("/", 3)[2] for each in asked} == {page.server.url.split("/")[2]}
    policy = client.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_where_a_token_is_wanted_the_page_asks_for_it(browser: Any, folders: Path):
    with page_of_another(browser, folders / "classify", environment={"BERTKIT_TOKEN": "correct-horse"}) as page:
        browser.get(f"{page.server.url}/")
        browser.execute_script("localStorage.setItem('bertkit.language', 'en')")
        browser.get(f"{page.server.url}/#classify/classify?text=The+value")
        browser.refresh()
        page.wait(lambda: page.all("#token"))
        assert page.texts("label") == ["Token"]
        assert page.texts("#models a") == []
        assert complaints(browser) == []
        page.one("#token").send_keys("wrong-horse", Keys.ENTER)
        page.wait(lambda: page.texts("[role=alert]") == ["That is not the server’s token."])
        page.one("#language").click()
        page.wait(lambda: page.texts("label") == ["令牌"])
        page.one("#language").click()
        page.one("#token").send_keys("correct-horse", Keys.ENTER)
        page.wait_for_answer()
        assert page.one(".verdict").text in ("neg", "pos")
        browser.refresh()
        page.wait_for_answer()
        assert "correct-horse" not in browser.current_url
        assert "correct-horse" not in browser.execute_script("return JSON.stringify(localStorage)")
