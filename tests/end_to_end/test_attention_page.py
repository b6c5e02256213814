"""The attention page in a real browser: what a person sees and does."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

selenium = pytest.importorskip("selenium", reason="selenium is not installed")
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.select import Select  # noqa: E402

ENGLISH, CHINESE = "The unquestionably old bank's value.", "我们喜欢学习自然语言处理。"


@pytest.fixture(scope="module")
def maps(encoder):
    return encoder.attention(ENGLISH, CHINESE)


@pytest.fixture
def page(browser, maps, tmp_path: Path):
    """The page, freshly opened; nothing may have gone wrong in it by the end."""
    maps.save_page(tmp_path / "page.html")
    browser.get((tmp_path / "page.html").as_uri())
    yield browser
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def words(page) -> list:
    return page.find_elements(By.CSS_SELECTOR, "#text .token")


def shares(page) -> dict[str, float]:
    rows = page.find_elements(By.CSS_SELECTOR, "#ranking li")
    texts = [
        (r.find_element(By.CSS_SELECTOR, ".name").text, r.find_element(By.CSS_SELECTOR, ".share").text) for r in rows
    ]
    return {name: float(share.rstrip(" %")) / 100 for name, share in texts}


def point_at(page, name: str):
    (word,) = [word for word in words(page) if word.text == name]
    ActionChains(page).move_to_element(word).perform()
    return word


def test_the_text_is_shown_as_it_was_written(page):
    shown = page.find_element(By.ID, "text").text.replace("\u200b", "")
    assert ENGLISH in shown
    assert CHINESE in shown, "no spaces between Chinese characters"
    assert [word.text for word in words(page)][:4] == ["[CLS]", "The", "unquestionably", "old"]


def test_pointing_at_a_word_shows_what_it_looks_at(page, maps):
    Select(page.find_element(By.ID, "layer")).select_by_value("1")
    Select(page.find_element(By.ID, "head")).select_by_value("0")
    before = [word.value_of_css_property("background-color") for word in words(page)]
    point_at(page, "喜")
    assert page.find_element(By.ID, "ranking-title").text == "Where “喜” looks"
    at = maps.surfaces.index("喜")
    row = maps.maps[1, 0, at]
    shown = shares(page)
    assert max(shown.values()) == pytest.approx(max(sum_by_word(maps, row).values()), abs=0.006)
    assert [word.value_of_css_property("background-color") for word in words(page)] != before


def sum_by_word(maps, row: np.ndarray) -> dict[int, float]:
    totals: dict[int, float] = {}
    for word, share in zip(maps.words, row.tolist(), strict=True):
        totals[word] = totals.get(word, 0.0) + share
    return totals


def test_a_word_of_several_pieces_is_one_or_its_pieces(page, maps):
    pieces = [
        s for s, w in zip(maps.surfaces, maps.words, strict=True) if w == maps.words[maps.surfaces.index("old") - 1]
    ]
    assert len(pieces) > 1
    assert "".join(pieces) == "unquestionably"
    count = len(words(page))
    page.find_element(By.ID, "whole").click()
    assert len(words(page)) == len(maps.tokens) > count


def test_each_direction_and_the_special_tokens(page, maps):
    Select(page.find_element(By.ID, "layer")).select_by_value("0")
    Select(page.find_element(By.ID, "head")).select_by_value("1")
    page.find_element(By.ID, "whole").click()
    Select(page.find_element(By.ID, "direction")).select_by_value("to")
    point_at(page, "old")
    assert page.find_element(By.ID, "ranking-title").text == "Which words look at “old”"
    column = maps.maps[0, 1, :, maps.surfaces.index("old")]
    assert max(shares(page).values()) == pytest.approx(column.max(), abs=0.006)
    Select(page.find_element(By.ID, "direction")).select_by_value("from")
    page.find_element(By.ID, "special").click()
    point_at(page, "old")
    assert shares(page).get("[CLS]", 0.0) == 0.0


def test_arrow_keys_change_layer_and_head_and_the_address_keeps_the_view(page):
    page.find_element(By.TAG_NAME, "body").send_keys(Keys.ARROW_UP, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert Select(page.find_element(By.ID, "layer")).first_selected_option.text == "1 of 2"
    assert Select(page.find_element(By.ID, "head")).first_selected_option.text == "2 of 2"
    point_at(page, "old").click()
    address = page.current_url
    assert re.search(r"layer=0&head=1&.*token=\d+", address)
    page.get("about:blank")
    page.get(address)
    assert Select(page.find_element(By.ID, "head")).first_selected_option.text == "2 of 2"
    assert page.find_element(By.ID, "ranking-title").text == "Where “old” looks"


def test_clicking_a_small_map_chooses_its_head(page):
    overview = page.find_element(By.ID, "overview")
    size = overview.size
    ActionChains(page).move_to_element_with_offset(overview, size["width"] // 4, -size["height"] // 4).click().perform()
    assert Select(page.find_element(By.ID, "layer")).first_selected_option.text == "1 of 2"
    assert Select(page.find_element(By.ID, "head")).first_selected_option.text == "2 of 2"


def test_the_picture_is_drawn(page, tmp_path):
    """A screenshot is not blank, the heat map and the overview have ink in them, and pointing changes the picture."""
    point_at(page, "The")
    first = page.get_screenshot_as_png()
    point_at(page, "old")
    second = page.get_screenshot_as_png()
    assert first[:8] == second[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(first) > 20_000
    assert first != second
    for name in ("matrix", "overview"):
        inked = page.execute_script(
            "const c = document.getElementById(arguments[0]);"
            "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            "let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 8; return n / (d.length / 4);",
            name,
        )
        assert inked > 0.05, name


def test_a_phone_shows_it_in_one_column_without_sideways_scrolling(page):
    page.set_window_size(400, 800)
    try:
        wide = page.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0
    finally:
        page.set_window_size(1250, 1100)


def test_markup_in_a_text_is_only_text(browser, encoder, tmp_path):
    text = "</script><script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">"
    encoder.attention(text).save_page(tmp_path / "page.html")
    browser.get((tmp_path / "page.html").as_uri())
    assert browser.title == "Attention · bertkit"
    assert "<script>" in browser.find_element(By.ID, "text").text.replace("\u200b", "").replace(" ", "")
    assert browser.find_elements(By.CSS_SELECTOR, "img") == []
