"""Each route gives what the command gives."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import bertkit
from bertkit.infer.explain import explain
from bertkit.words import save_words
from servers import close, running

QUESTIONS: dict[str, list[Any]] = {
    "classify": ["good value", {"text": "a value", "pair": "of a class"}, ["two texts", "in a list"]],
    "regress": ["good value", "a longer text about the value of an object"],
    "tag": ["The class of an object", ["The", "class"], {"words": ["An", "object"]}],
    "qa": [{"question": "What is it?", "context": "It is an object of a class."}, ["Who?", "The value."]],
    "choice": [{"premise": "The value", "endings": ["is none", "was given", "has a name"]}, ["It", ["is", "was"]]],
    "cosine": [["a value", "an object"], {"text": "one", "pair": "two"}],
}


def answers(done: httpx.Response) -> list[Any]:
    assert done.status_code == 200, done.text
    return done.json()["answers"]


@pytest.mark.parametrize("task", QUESTIONS)
def test_predict_answers_as_the_command_does(client: httpx.Client, folders: Path, task: str):
    inputs = QUESTIONS[task]
    expected = bertkit.load(folders / task, threads=1)(inputs)
    found = answers(client.post(f"/v1/models/{task}/predict", json={"inputs": inputs}))
    assert close(found, expected)


def test_one_input_is_answered_like_a_list_of_one(client: httpx.Client):
    one = answers(client.post("/v1/models/classify/predict", json={"inputs": "good value"}))
    assert one == answers(client.post("/v1/models/classify/predict", json={"inputs": ["good value"]}))
    named = {"question": "What?", "context": "A value."}
    assert len(answers(client.post("/v1/models/qa/predict", json={"inputs": named}))) == 1


def test_embed_gives_the_vectors_of_the_command(client: httpx.Client, folders: Path):
    encoder = bertkit.load_encoder(folders / "words", threads=1)
    texts = ["a value", "value " * 900]
    for settings in ({}, {"pooling": "cls", "layers": "mean:-2..-1"}, {"long": "truncate"}):
        found = answers(client.post("/v1/models/words/embed", json={"inputs": texts, **settings}))
        assert [each["text"] for each in found] == texts
        assert np.allclose([each["vector"] for each in found], encoder.embed(texts, **settings), atol=1e-5)


def test_embed_gives_a_vector_for_each_word(client: httpx.Client, folders: Path):
    text = "The value of an object."
    (found,) = answers(client.post("/v1/models/words/embed", json={"inputs": text, "level": "word"}))
    (expected,) = bertkit.load_encoder(folders / "words", threads=1).embed_words([text])
    assert [each["word"] for each in found["words"]] == expected.words
    assert np.allclose([each["vector"] for each in found["words"]], expected.vectors, atol=1e-5)


def test_a_model_for_cosines_gives_vectors_of_length_1(client: httpx.Client, folders: Path):
    (found,) = answers(client.post("/v1/models/cosine/embed", json={"inputs": "a value"}))
    assert np.linalg.norm(found["vector"]) == pytest.approx(1)
    assert close(found["vector"], bertkit.load_encoder(folders / "cosine", threads=1).embed("a value").tolist())


def test_fill_mask_guesses_as_the_command_does(client: httpx.Client, folders: Path):
    texts = ["The [MASK] of an [MASK].", "A [MASK]"]
    found = answers(client.post("/v1/models/words/fill-mask", json={"inputs": texts, "k": 3}))
    expected = bertkit.load_encoder(folders / "words", threads=1).fill_mask(texts, 3)
    assert [each["text"] for each in found] == texts
    assert [[[guess["token"] for guess in mask] for mask in each["masks"]] for each in found] == [
        [[guess.token for guess in mask] for mask in each] for each in expected
    ]


def test_attention_gives_all_maps_or_one(client: httpx.Client, folders: Path):
    asked = {"text": "The value", "pair": "of an object"}
    (found,) = answers(client.post("/v1/models/words/attention", json=asked))
    expected = bertkit.load_encoder(folders / "words", threads=1).attention(*asked.values())
    assert found["tokens"] == expected.tokens
    assert np.allclose(found["maps"], expected.maps, atol=1e-5)
    (one,) = answers(client.post("/v1/models/words/attention", json={**asked, "layer": 1, "head": 0}))
    assert one["maps"] == [[found["maps"][1][0]]]
    assert (one["layers"], one["heads"]) == ([1], [0])


def test_explain_tells_what_a_label_hung_on(client: httpx.Client, folders: Path):
    asked = {"text": "The value", "pair": "of an object", "label": "pos"}
    (found,) = answers(client.post("/v1/models/classify/explain", json=asked))
    assert [(each["word"], each["text"]) for each in found["words"]] == [
        ("The", 0),
        ("value", 0),
        ("of", 1),
        ("an", 1),
        ("object", 1),
    ]
    assert found["label"] == "pos"
    assert close(found, explain(bertkit.load(folders / "classify", threads=1).scorer, **asked).as_json())
    for model, told in (("regress", "Only classifiers"), ("words", "not fine-tuned")):
        refused = client.post(f"/v1/models/{model}/explain", json={"text": "a"})
        assert refused.status_code == 422
        assert told in refused.json()["error"]["message"]


def test_openai_clients_get_vectors(client: httpx.Client, folders: Path):
    texts = ["a value", "an object"]
    expected = bertkit.load_encoder(folders / "words", threads=1).embed(texts)
    found = client.post("/v1/embeddings", json={"model": "words", "input": texts}).json()
    assert [each["index"] for each in found["data"]] == [0, 1]
    assert np.allclose([each["embedding"] for each in found["data"]], expected, atol=1e-5)
    assert found["usage"]["prompt_tokens"] == found["usage"]["total_tokens"] > 4
    packed = client.post("/v1/embeddings", json={"model": "words", "input": texts, "encoding_format": "base64"}).json()
    vectors = [np.frombuffer(base64.b64decode(each["embedding"]), "<f4") for each in packed["data"]]
    assert np.allclose(vectors, expected, atol=1e-5)


def test_openai_clients_are_told_that_vectors_are_not_cut(client: httpx.Client):
    done = client.post("/v1/embeddings", json={"model": "words", "input": "a", "dimensions": 5})
    assert done.status_code == 422
    assert "dimensions" in done.json()["error"]["message"]


def test_clients_of_text_embeddings_inference_get_vectors_of_the_default_model(client: httpx.Client, folders: Path):
    encoder = bertkit.load_encoder(folders / "classify", threads=1)
    found = client.post("/embed", json={"inputs": ["a value"]}).json()
    with pytest.warns(UserWarning, match="not trained for sentence vectors"):
        assert np.allclose(found, encoder.embed(["a value"], normalize=True), atol=1e-5)
    assert client.post("/embed", json={"inputs": "value " * 900}).status_code == 422
    assert client.post("/embed", json={"inputs": "value " * 900, "truncate": True}).status_code == 200


def test_clients_of_text_embeddings_inference_get_labels(client: httpx.Client):
    one = client.post("/predict", json={"inputs": "a value"}).json()
    assert {each["label"] for each in one} == {"neg", "pos"}
    assert one[0]["score"] >= one[1]["score"]
    many = client.post("/predict", json={"inputs": [["a value"], ["a value", "an object"]]}).json()
    assert many[0] == [{"label": each["label"], "score": pytest.approx(each["score"], abs=1e-5)} for each in one]
    pair = client.post("/predict", json={"inputs": ["a value", "an object"]}).json()
    assert close(pair, many[1])
    assert client.post("/predict", json={"inputs": "value " * 99}).status_code == 422
    assert client.post("/predict", json={"inputs": "value " * 99, "truncate": True}).status_code == 200


def test_models_are_listed_with_what_they_can_do(client: httpx.Client):
    listed = {each["id"]: each for each in client.get("/v1/models").json()["data"]}
    assert list(listed) == [*QUESTIONS, "words", "writes"]
    assert listed["classify"]["labels"] == ["neg", "pos"]
    assert [name for name, each in listed.items() if each["default"]] == ["classify"]
    assert listed["words"]["operations"] == ["fill-mask", "embed", "attention"]
    assert listed["words"]["mask"] == "[MASK]"
    assert {each["state"] for each in listed.values()} == {"ready"}
    assert client.get("/v1/models/tag").json() == listed["tag"]


def test_metrics_count_what_was_done(client: httpx.Client):
    def count(name: str) -> float:
        lines = client.get("/metrics").text.splitlines()
        return next((float(line.split()[-1]) for line in lines if line.startswith(name)), 0.0)

    computed, refused = 'bertkit_inputs_total{model="classify"}', 'bertkit_requests_total{route="other",status="404"}'
    before = count(computed), count(refused)
    answers(client.post("/v1/models/classify/predict", json={"inputs": ["a", "b", "c"]}))
    client.get("/nowhere")
    assert (count(computed), count(refused)) == (before[0] + 3, before[1] + 1)
    assert count('bertkit_queue_inputs{model="classify"}') == 0


def test_every_route_is_described(client: httpx.Client):
    described = client.get("/openapi.json").json()
    assert set(described["paths"]) >= {
        "/v1/models",
        "/v1/models/{name}/predict",
        "/v1/models/{name}/embed",
        "/v1/models/{name}/fill-mask",
        "/v1/models/{name}/attention",
        "/v1/models/{name}/explain",
        "/v1/embeddings",
        "/embed",
        "/predict",
        "/healthz",
        "/readyz",
        "/metrics",
    }
    assert client.get("/docs").status_code == 404


def test_answers_carry_headers_that_keep_browsers_strict(client: httpx.Client):
    headers = client.get("/healthz").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


def test_a_table_of_words_answers_questions_about_them(tmp_path: Path):
    rows = np.random.default_rng(0).normal(size=(9, 6)).astype(np.float32)
    words = ["king", "queen", "man", "woman", "the"]
    save_words(tmp_path / "table", words, rows, method="imported", lowercase=True, provenance={})
    vectors = bertkit.load_words(tmp_path / "table")
    with running(tmp_path / "table") as started, started.client() as client:
        route = "/v1/models/table/words"
        (near,) = answers(client.post(route, json={"inputs": ["King"], "k": 3}))
        assert near["near"] == [
            {"word": word, "score": round(score, 4)} for word, score in vectors.nearest("king", count=3)
        ]
        (found,) = answers(client.post(route, json={"inputs": ["man", "king", "woman"], "ask": "analogy"}))
        assert found["near"][0]["word"] == vectors.analogy("man", "king", "woman")[0].word
        (places,) = answers(client.post(route, json={"inputs": [*words, "prince"], "ask": "map"}))
        assert [each["word"] for each in places["places"]] == words
        assert places["unknown"] == ["prince"]
        assert client.post(route, json={"inputs": ["quen"]}).status_code == 422
        assert "'queen'" in client.post(route, json={"inputs": ["quen"]}).json()["error"]["message"]
        (facts,) = client.get("/v1/models").json()["data"]
        assert (facts["table"], facts["operations"]) == (True, ["words", "embed"])
        (embedded,) = answers(client.post("/v1/models/table/embed", json={"inputs": "the king"}))
        mean = (vectors["the"] + vectors["king"]) / 4  # beside [CLS] and [SEP], which are zero
        assert np.allclose(embedded["vector"], mean, atol=1e-5)


def test_a_model_that_reads_is_no_table_of_words(client: httpx.Client):
    refused = client.post("/v1/models/words/words", json={"inputs": ["value"]})
    assert refused.status_code == 422
    assert "no table of words" in refused.json()["error"]["message"]
