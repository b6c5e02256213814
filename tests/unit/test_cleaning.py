from __future__ import annotations

import textwrap

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bertkit.corpus import Cleaning, clean
from bertkit.errors import UsageError

EVERYTHING = Cleaning(min_chars=0, max_repetition=1e9, max_copied_lines=1)
NOTHING = Cleaning(
    repair=False, html=False, controls=False, whitespace=False, unwrap=False, min_chars=0, max_repetition=1e9
)
PROSE = (
    "The old ferry crosses the river twice a day, and most of the people who use it have known each other since they "
    "went to school together on the far bank. Nobody counts the passengers any more. In summer a few visitors stand at "
    "the rail with their cameras, asking the captain about the birds that nest under the ruined bridge upstream, and "
    "he tells them a different story every time because he has never learned what they are called."
)
CHINESE_PROSE = (
    "渡船每天过河两次，坐船的人大多从小就认识，一起在对岸上学。现在没有人数乘客了。夏天有几个游客站在栏杆旁边拍照，"
    "向船长打听上游断桥下面筑巢的鸟，他每次都讲一个不同的故事，因为他从来不知道那些鸟叫什么名字。到了冬天，河面结冰，"
    "渡船停在岸边，孩子们就在冰上走过去，老人们坐在窗前看着他们，想起自己小时候也是这样走过去上学的。"
)
PIECES = [
    *"aBé中ß \n\t\r\x1e\x85\xa0\u200b\u2028\ufeff<>&;/-",
    "&amp;",
    "amp;",
    "lt;",
    "&#60;",
    "br>",
    "<b>",
    "</b>",
    "<p>",
    "<!--",
    "-->",
    "Ã©",
    "Ã",
    "â€",
    "™",
    "\U000e0020",
    "\ud800",
    "word " * 15 + "\n",
    "字" * 30 + "\n",
]


def count(**counts: int) -> dict[str, int]:
    return dict.fromkeys(("repair", "html", "controls", "whitespace", "unwrap"), 0) | counts


@pytest.mark.parametrize(
    "text",
    [
        "Plain English — with “quotes”, a dash – and 50 % of nothing…",
        "这是一个普通的句子，里面有《书名》和“引号”。",
        "Où est l’été ? À Noël, naïve cœur déçu, «déjà», ÇA ALORS… É»",
        "MAÇÃ, PÃO e coração; Ærø, Ångström, Øre, Łódź",
        "A family 👨‍👩‍👧 and a red heart ❤️ and a flag 🇫🇷",
        "می‌خواهم کتاب‌ها را بخوانم",
        "क्‍ष हिन्दी में",
        "if a < b && c > d: return List<String>() or Map<K, V>{}",
        "x = a<b and c>d; y = a<b>c; std::vector<int> v; cp <source> <target>",
        "see <https://example.org/?a=1&copy=2&lt=3> or <me@example.org>, AT&T",
        "# Heading\n\n- item *one*\n- item `two`\n\n> quote\n\n| a | b |\n|---|---|",
        "∀x∈ℝ: x² ≥ 0 ∧ ∑ᵢ aᵢ < ∞, √2 ≈ 1.414, α→β ⟨ψ|φ⟩",
        "Привет, мир. Ελληνικά. שלום. สวัสดี. 안녕하세요. こんにちは。",
    ],
)
def test_sane_text_stays_as_it_is(text):
    assert clean(text, EVERYTHING) == (text, None, count())


@pytest.mark.parametrize(
    ("before", "after", "wrong"),
    [
        ("le cafÃ© naÃ¯f", "le café naïf", 4),
        ("itâ€™s â€œquotedâ€\x9d", "it’s “quoted”", 9),
        ("å¥½ï¼š", "好：", 6),
        ("ÐŸÑ€Ð¸Ð²ÐµÑ‚", "Привет", 12),
        ("fine é\nbad Ã©\nfine too, Ã", "fine é\nbad é\nfine too, Ã", 2),
    ],
)
def test_text_read_in_the_wrong_encoding_is_repaired(before, after, wrong):
    assert clean(before, EVERYTHING) == (after, None, count(repair=wrong))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("one<br />two<BR>three", "one\ntwo\nthree"),
        ("<p>Fish &amp; <b>chips</b></p>", "\nFish & chips\n"),
        ("<a href=\"x?a=b\" title='y' hidden>link</a> <img src=z.png />", "link  "),
        ("<ul><li>a<li>b</ul>", "\n\na\nb\n"),
        ("<h1>T</h1><div class=c>d</div>", "\nT\n\nd\n"),
        ("<td>a</td><td>b</td>", " a  b "),
        ("x<!-- <b> hidden -->y<script type='t'>if (a<b) {}</script>z<STYLE>p {}</STYLE>", "xyz"),
        ("never <!-- closed <script>nor this", "never <!-- closed nor this"),
        (
            "&lt;b&gt; &quot;5 &#60; 6&quot; &#x4e2d; &hellip; &unknown; &notin; &amp",
            '<b> "5 < 6" 中 … &unknown; ∉ &amp',
        ),
        ("&amp;amp;lt;i&amp;gt; AT&amp;amp;T", "<i> AT&T"),
        ("&lt;br&gt;", "\n"),
        ("a<b>c List<T> List<A>", "a<b>c List<T> List<A>"),
        ("<input> stays, <input type=text> goes", "<input> stays,  goes"),
    ],
)
def test_html_goes_and_what_looks_like_it_stays(before, after):
    settings = Cleaning(controls=False, whitespace=False, min_chars=0, max_copied_lines=1)
    cleaned = clean(before, settings)
    assert cleaned.counts == count(html=len(before) - len(after))
    assert cleaned.text == (after if after.strip() else "")


@pytest.mark.parametrize(
    ("before", "after", "removed"),
    [
        ("a\x00b\x07c\x7fd\x80", "abcd", 4),
        ("co\xadop\u200ber\u2060ate\ufeff", "cooperate", 4),
        ("\u202eabc\u202c \u200eabc\u200f \u2066x\u2069", "abc abc x", 6),
        ("caf\ufffd \ue000\U000f1234\ufdd0\uffff\U0001fffe", "caf", 6),
        ("a\x1cb\x1dc\x1ed\x1fe\ud800f", "abcdef", 5),
    ],
)
def test_invisible_characters_go(before, after, removed):
    cleaned = clean(before, EVERYTHING)
    assert (cleaned.text, cleaned.counts["controls"]) == (after, removed)


@pytest.mark.parametrize(
    ("before", "after", "removed"),
    [
        ("a \t b", "a b", 2),
        ("a\xa0\u3000b\u2009c", "a b c", 1),
        ("  a  \n  b  ", "a\nb", 8),
        ("a\r\nb\rc\u2028d\u2029e\x85f\x0bg\x0ch", "a\nb\nc\nd\ne\nf\ng\nh", 1),
        ("a\n\n\n\n \nb\n\nc\n", "a\n\nb\n\nc", 5),
    ],
)
def test_white_space_is_made_simple(before, after, removed):
    assert clean(before, EVERYTHING) == (after, None, count(whitespace=removed))


def test_hard_wrapped_paragraphs_are_joined():
    wrapped = textwrap.fill(PROSE, 60)
    text = f"{wrapped}\n\nA heading\n\n- {textwrap.fill(PROSE, 58)}\n- a short item\n\n{wrapped}"
    cleaned = clean(text, EVERYTHING)
    assert cleaned.text == f"{PROSE}\n\nA heading\n\n- {PROSE}\n- a short item\n\n{PROSE}"
    assert cleaned.counts == count(unwrap=text.count("\n") - cleaned.text.count("\n"))


def test_chinese_lines_are_joined_without_a_space():
    wrapped = "\n".join(textwrap.wrap(CHINESE_PROSE, 30))
    assert clean(wrapped, EVERYTHING).text == CHINESE_PROSE


def test_a_word_broken_at_its_hyphen_is_joined_without_a_space():
    start = "\n".join(textwrap.wrap(PROSE, 60)[:5])
    text = f"{start}\nand so the whole of the village came down to the well-\nknown landing."
    assert clean(text, EVERYTHING).text.endswith("well-known landing.")


@pytest.mark.parametrize(
    "text",
    [
        f"{PROSE}\n{PROSE[:170]}\nA short line\n{PROSE[50:]}\nAnother\n{PROSE[:99]}",
        "\n".join(
            f"{name} was born in {1900 + len(name)} and lived in {name}ville"
            for name in "Ann Bo Clementine".split() * 4
        ),
        "\n".join(
            [
                "The lamp is lit, the day is done,",
                "The boats come home across the bay;",
                "And one by one, and one by one,",
            ]
            * 3
        ),
        "\n".join(f"- {word} is the thing that everybody wanted from the start" for word in PROSE.split()[:12]),
        "\n".join(
            f"{number}.31 {number * 7}.50 {number * 3}.25 11.00 12.50 99.75 10.00 27.1" for number in range(10, 30)
        ),
        "def area(width, height):\nif width < 0:\nraise ValueError(width)\nsize = width * height\nreturn size\nx = 1",
        "床前明月光，疑是地上霜。\n举头望明月，低头思故乡。\n白日依山尽，黄河入海流。\n欲穷千里目，更上一层楼。\n春眠不觉晓，处处闻啼鸟。\n夜来风雨声，花落知多少。",
    ],
    ids=["paragraphs", "sentences", "verse", "list", "table", "code", "Chinese verse"],
)
def test_lines_that_were_not_wrapped_stay(text):
    assert clean(text, EVERYTHING).text == text


def test_real_wrapped_prose_is_joined(english):
    lines = textwrap.wrap(" ".join(english[:200]), 70)
    assert clean("\n".join(lines), EVERYTHING).text.count("\n") < 0.1 * len(lines)


@pytest.mark.parametrize(
    ("text", "settings", "reason"),
    [
        ("", Cleaning(), "empty"),
        ("<p>\u200b</p> \n", Cleaning(min_chars=0), "empty"),
        ("short", Cleaning(), "too short"),
        (PROSE, Cleaning(max_chars=100), "too long"),
        ("the same again and again " * 40, Cleaning(), "too repetitive"),
        ("\n".join([PROSE, "The menu of the site", PROSE, PROSE]), Cleaning(), "too repetitive"),
        (PROSE, Cleaning(script="han"), "wrong script"),
        (CHINESE_PROSE, Cleaning(script="latin, cyrillic"), "wrong script"),
        ("12 + 30 = 42, 7 * 8 = 56", Cleaning(script="latin"), "wrong script"),
        (CHINESE_PROSE, Cleaning(script="han"), None),
        (PROSE, Cleaning(script="latin"), None),
        (PROSE[:100] + CHINESE_PROSE[:100], Cleaning(script="han,latin", min_script=1), None),
        ("Съешь же ещё этих мягких булок", Cleaning(script="cyrillic"), None),
        ("สวัสดีชาวโลกทุกคนในวันนี้", Cleaning(script="thai"), None),
        ("ひらがなとカタカナでかいたぶんしょう。", Cleaning(script="kana", min_chars=0), None),
    ],
)
def test_documents_are_dropped_with_a_reason(text, settings, reason):
    cleaned = clean(text, settings)
    assert cleaned.dropped == reason
    assert bool(cleaned.text) == (reason is None)


def test_songs_with_a_chorus_and_tables_of_numbers_are_kept():
    verses = [" ".join(PROSE.split()[start : start + 12]) for start in range(0, 60, 12)]
    song = "\n".join(
        f"{verse}\nHey ho, the wind and the rain,\nand down to the water we go again.\n" for verse in verses
    )
    table = "\n".join(" ".join(str(row * column % 97) for column in range(2, 14)) for row in range(1, 90))
    assert clean(song, Cleaning()).dropped is None
    assert clean(table, Cleaning()).dropped is None


def test_an_unknown_script_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match=r"no script is called 'lattin'. Did you mean 'latin'\?"):
        Cleaning(script="han,lattin")
    with pytest.raises(UsageError, match="no document has 5 to 4 characters"):
        Cleaning(min_chars=5, max_chars=4)


def test_with_every_step_off_only_separators_and_line_ends_change():
    text = " <b>\xa0Ã©\u200b&amp;</b>  \n\n\n\t"
    assert clean(f"{text}\r\n\x1e\ud800x\u2028", NOTHING) == (f"{text}\nx\n", None, count(controls=2, whitespace=1))


mixed = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


@given(st.one_of(st.text(), mixed))
@example("<<b>b>x</b>")
@example("&a\u200bmp;lt;p>")
@example("&Atilde;&copy;")
@example("\xa0Ã©\t")
def test_cleaning_twice_changes_nothing(text):
    once = clean(text, EVERYTHING).text
    assert clean(once, EVERYTHING) == (once, None if once else "empty", count())


@given(st.one_of(st.text(), mixed), st.sampled_from([EVERYTHING, NOTHING]))
def test_the_separators_of_later_stages_never_remain(text, settings):
    cleaned = clean(text, settings).text
    assert not set(cleaned) & set("\x1c\x1d\x1e\x1f\r\x0b\x0c\x85\u2028\u2029")
    cleaned.encode("utf-8")


@given(st.one_of(st.text(), mixed))
def test_nothing_is_lost_but_what_is_counted(text):
    cleaned = clean(text, Cleaning(repair=False, html=False, min_chars=0, max_repetition=1e9, max_copied_lines=1))
    if cleaned.dropped is None:
        kept = iter("".join(text.split()))
        visible = "".join(cleaned.text.split())
        assert all(character in kept for character in visible)
        separators = sum(character.isspace() and character in "\x1c\x1d\x1e\x1f" for character in text)
        assert len("".join(text.split())) - len(visible) == cleaned.counts["controls"] - separators
