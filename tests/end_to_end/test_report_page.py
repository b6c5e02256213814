"""The report of a run in a real browser: what a person sees, on a desk and on a phone, by day and by night."""

from __future__ import annotations

from pathlib import Path

import pytest

selenium = pytest.importorskip("selenium", reason="selenium is not installed")
from selenium.webdriver.common.by import By  # noqa: E402

from bertkit.report import write_report  # noqa: E402
from bertkit.report.fit_page import fit_page  # noqa: E402
from bertkit.tasks import Mistake  # noqa: E402
from bertkit.train import FitFacts  # noqa: E402
from runs import make_run  # noqa: E402


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    run = make_run(tmp_path_factory.mktemp("runs") / "wiki-中文", skipped=7, rollback=True, resumed=1)
    write_report(run)
    return run / "report.html"


@pytest.fixture
def page(browser, report):
    """The report, freshly opened; nothing may have gone wrong in it by the end."""
    browser.get(report.as_uri())
    yield browser
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def color_scheme(page, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def phone(page) -> None:
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 360, "height": 780, "deviceScaleFactor": 2, "mobile": True},
    )


def sideways(page) -> int:
    return page.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")


def brightness(color: str) -> float:
    return sum(float(part) for part in color.split("(")[1].rstrip(")").split(",")[:3]) / 3


def test_the_figures_curves_guesses_and_settings_can_be_seen(page):
    assert page.title == "wiki-中文 · bertkit"
    figures = {
        tile.find_element(By.TAG_NAME, "dt").text: tile.find_element(By.TAG_NAME, "dd").text
        for tile in page.find_elements(By.CSS_SELECTOR, ".figures > div")
    }
    assert figures["steps"] == "2,000"
    assert figures["validation loss"] == "2.868"
    curves = page.find_elements(By.CSS_SELECTOR, ".curves svg")
    assert len(curves) == 6
    assert all(curve.size["width"] > 400 and curve.size["height"] > 200 for curve in curves)
    titles = [card.text for card in page.find_elements(By.TAG_NAME, "h2")]
    assert titles == [
        "Curves",
        "Guesses for hidden words",
        "What happened",
        "Plan",
        "Settings",
        "Data",
        "Machine",
        "Versions",
        "Command",
    ]
    hidden = [mark.text for mark in page.find_elements(By.TAG_NAME, "mark")]
    assert hidden == ["capital", "book", "page", "习"]
    right = page.find_elements(By.CSS_SELECTOR, ".guesses .right")
    assert {word.find_element(By.TAG_NAME, "bdi").text for word in right} == set(hidden)
    assert right[0].value_of_css_property("color") != page.find_element(By.TAG_NAME, "h1").value_of_css_property(
        "color"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_curves_stand_out_by_day_and_by_night(page, scheme):
    color_scheme(page, scheme)
    paper = brightness(page.find_element(By.CSS_SELECTOR, ".card").value_of_css_property("background-color"))
    assert (paper > 200) if scheme == "light" else (paper < 60)
    for what, prop in ((".card h2", "color"), (".curves svg text", "fill"), (".quiet", "color")):
        ink = brightness(page.find_element(By.CSS_SELECTOR, what).value_of_css_property(prop))
        assert abs(ink - paper) > 80, what
    lines = page.execute_script(
        "return [...document.querySelectorAll('.curves svg path')].map(p => getComputedStyle(p).stroke)"
    )
    lines = [line for line in set(lines) if line.startswith("rgb")]
    assert len(lines) > 4
    wide = [line for line in lines if abs(brightness(line) - paper) > 60]
    assert len(wide) >= len(lines) - 1, "all but the grid stand out"


def test_a_phone_shows_it_in_one_column_without_sideways_scrolling(page):
    assert sideways(page) <= 0
    lefts = {round(curve.rect["x"]) for curve in page.find_elements(By.CSS_SELECTOR, ".curves svg")}
    assert len(lefts) == 2
    phone(page)
    assert sideways(page) <= 0
    lefts = {round(curve.rect["x"]) for curve in page.find_elements(By.CSS_SELECTOR, ".curves svg")}
    assert len(lefts) == 1
    cell = page.find_element(By.CSS_SELECTOR, ".guesses td")
    before = page.execute_script("return getComputedStyle(arguments[0], '::before').content", cell)
    assert before == '"step 200"', "each cell says its step, for there is no head above it"


def test_nothing_in_a_text_runs_or_loads(browser, tmp_path):
    evil = "</td><script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">"
    long = "wordwithoutend" * 40
    run = make_run(
        tmp_path / "run", sentences=[(f"{evil} [MASK] {long}", [evil], [long])], settings={evil: evil + long}
    )
    write_report(run)
    browser.get((run / "report.html").as_uri())
    assert browser.title == "run · bertkit"
    assert browser.find_elements(By.CSS_SELECTOR, "img, script") == []
    assert "<script>" in browser.find_element(By.CSS_SELECTOR, ".sentence").text
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    phone(browser)
    assert sideways(browser) <= 0, "long words are broken"
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.parametrize("on_a_phone", [False, True])
def test_short_words_beside_long_texts_are_not_broken(browser, tmp_path: Path, on_a_phone: bool):
    mistakes = [Mistake("a long text " * 30, "Norway", "Denmark", 0.1, "reviews.csv, line 31")]
    epochs = [{"epoch": 1, "loss": 1.1121, "accuracy": 0.5, "f1_macro": 0.4, "f1_micro": 0.5, "matthews": 0.25}]
    facts = FitFacts(
        "m", "classify", "accuracy", {"accuracy": 0.5}, (0.4, 0.6), (9, 9), epochs=epochs, mistakes=mistakes
    )
    (tmp_path / "report.html").write_bytes(fit_page(facts))
    if on_a_phone:
        phone(browser)
    browser.get((tmp_path / "report.html").as_uri())
    lines = browser.execute_script(
        """return Object.fromEntries([...document.querySelectorAll("tbody td")].map(cell => {
          const range = document.createRange();
          range.selectNodeContents(cell);
          return [cell.textContent, new Set([...range.getClientRects()].map(box => box.top)).size];
        }))"""
    )
    wide = sideways(browser)
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    short = ("Norway", "Denmark", "10%", "1.1121", "0.2500")
    assert {words: lines[words] for words in short} == dict.fromkeys(short, 1)
    assert wide == 0, "the table moves in its own place"
