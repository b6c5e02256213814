"""The command line as a user has it: a process, its output, its exit code."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import bertkit
from commands import bertkit_command


def succeeds(*arguments: object, stdin: bytes = b"") -> list[dict]:
    done = bertkit_command(*arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def fails(code: int, *arguments: object, stdin: bytes = b"") -> str:
    done = bertkit_command(*arguments, stdin=stdin)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.stderr


def test_help_answers_at_once_and_without_torch():
    start = time.perf_counter()
    code = "import sys; sys.argv = ['bertkit', '--help']\nfrom bertkit.cli import main\n"
    code += "try: main()\nexcept SystemExit: pass\n"
    loaded = subprocess.run(
        [sys.executable, "-c", code + "print([m for m in ('torch', 'numpy', 'tokenizers') if m in sys.modules])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert time.perf_counter() - start < 5
    assert loaded.endswith("[]\n")
    for command in ("demo", "prepare", "pretrain", "tokenizer", "info", "fill-mask", "embed", "attention", "convert"):
        assert f"\n  {command} " in loaded


@pytest.mark.parametrize(
    "command", ["demo", "prepare", "pretrain", "info", "fill-mask", "embed", "attention", "convert"]
)
def test_every_command_explains_itself(command):
    done = bertkit_command(command, "--help")
    assert done.returncode == 0
    assert len(done.stdout) > 300


def test_a_process_of_several_ends_with_its_own_exit_code():
    """torch's process groups have threads that may abort a process while Python ends."""
    code = "import atexit, os, sys; atexit.register(os.abort); sys.argv = ['bertkit', *sys.argv[1:]]\n"
    command = [sys.executable, "-c", code + "from bertkit.cli import main; main()"]
    environment = {**os.environ, "WORLD_SIZE": "2", "RANK": "1"}
    for argument, exit_code, said in (("--version", 0, f"bertkit {bertkit.__version__}\n"), ("--versoin", 2, "")):
        done = subprocess.run([*command, argument], capture_output=True, text=True, env=environment)
        assert (done.returncode, done.stdout) == (exit_code, said), done.stderr


def test_version():
    assert bertkit_command("--version").stdout == f"bertkit {bertkit.__version__}\n"


def test_info_tells_what_a_folder_is(tiny_folder, tiny, tokenizer):
    (facts,) = succeeds("info", tiny_folder)
    assert facts["parameters"] == tiny.parameter_count()
    assert (facts["family"], facts["task"], facts["layers"], facts["hidden_size"]) == ("bert", "fill-mask", 2, 128)
    assert facts["vocabulary"] == tokenizer.vocab_size
    assert facts["provenance"]["made_by"] == "a test"
    assert facts["parts"] == "encoder, pooler, masked-word head, next-sentence head"
    assert facts["verified"] is True
    assert set(facts["sha256"]) == {file.name for file in tiny_folder.iterdir()} - {"bertkit.json"}


def test_info_refuses_a_folder_that_contradicts_itself(tiny_folder, tmp_path):
    shutil.copytree(tiny_folder, tmp_path / "odd")
    (tmp_path / "odd" / "bertkit.json").unlink()
    config = json.loads((tmp_path / "odd" / "config.json").read_text())
    (tmp_path / "odd" / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 5}))
    assert "48 tensors that config.json asks for" in fails(3, "info", tmp_path / "odd")


def test_info_tells_what_this_machine_is():
    (facts,) = succeeds("info")
    assert facts["threads"] >= 1
    assert facts["precision"] == "float32"


def test_fill_mask_from_arguments_and_from_stdin(tiny_folder, encoder):
    texts = ["The [MASK] of it.", "[MASK] and [MASK]"]
    expected = [[[g.token for g in mask] for mask in encoder.fill_mask(text, k=3)] for text in texts]
    for rows in (
        succeeds("fill-mask", tiny_folder, *texts, "-k", 3),
        succeeds("fill-mask", tiny_folder, "-k", 3, stdin="\n".join(texts).encode()),
    ):
        assert [row["text"] for row in rows] == texts
        assert [[[g["token"] for g in mask] for mask in row["masks"]] for row in rows] == expected


@pytest.mark.parametrize("ending", ["npy", "jsonl", "parquet", ""])
def test_embed_writes_what_python_computes(tiny_folder, encoder, english, tmp_path, ending):
    texts = [*english[:50], "一个苹果。"]
    source, out = tmp_path / "texts.txt", tmp_path / f"vectors.{ending}"
    source.write_text("\n".join(texts), encoding="utf-8")
    rows = succeeds("embed", tiny_folder, source, "--pooling", "max", *(["-o", out] if ending else []))
    if ending == "npy":
        vectors = np.load(out)
    elif ending == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
        table = parquet.read_table(out)
        assert table["text"].to_pylist() == texts
        vectors = np.array(table["vector"].to_pylist(), dtype=np.float32)
    else:
        if ending == "jsonl":
            rows = [json.loads(line) for line in out.read_text().splitlines()]
        assert [row["text"] for row in rows] == texts
        vectors = np.array([row["vector"] for row in rows], dtype=np.float32)
    np.testing.assert_allclose(vectors, encoder.embed(texts, pooling="max"), atol=1e-5)


def test_embed_never_writes_over_its_input(tiny_folder, tmp_path):
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "a value"}\n', encoding="utf-8")
    done = bertkit_command("embed", tiny_folder, texts, "--out", texts)
    assert done.returncode == 3, done.stderr
    assert "is the input" in done.stderr
    assert texts.read_text(encoding="utf-8") == '{"text": "a value"}\n'


def test_embed_words_layers_and_stdin(tiny_folder, encoder):
    (row,) = succeeds("embed", tiny_folder, "--level", "word", "--layers", "concat:1..2", stdin="isn't 你好\n".encode())
    assert [word["word"] for word in row["words"]] == ["isn", "'", "t", "你", "好"]
    expected = encoder.embed_words("isn't 你好", layers="concat:1..2")[0].vectors
    np.testing.assert_allclose([word["vector"] for word in row["words"]], expected, atol=1e-5)


@pytest.mark.slow
def test_embed_keeps_memory_flat_over_a_long_stream(tiny_folder, english, tmp_path):
    code = (
        "import resource, sys; from bertkit.cli import main\ntry: main()\n"
        "except SystemExit as stop: print(stop.code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    )
    peaks = []
    for count in (20_000, 200_000):
        source, out = tmp_path / "texts.txt", tmp_path / f"vectors{count}.npy"
        source.write_text("\n".join(english[number % 500] for number in range(count)))
        command = [sys.executable, "-c", code, "embed", tiny_folder, source, "-o", out]
        child = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
        status, peak = map(int, child.stdout.split())
        assert status == 0
        assert np.load(out, mmap_mode="r").shape == (count, 128)
        peaks.append(peak)
    assert peaks[1] < peaks[0] + 100, "megabytes; the vectors alone are 100"


def test_long_texts_are_said(tiny_folder, english):
    text = " ".join(english[:100])
    done = bertkit_command("embed", tiny_folder, "-t", text, "-t", "short")
    assert "1 of 2 texts were longer than the model's 512 tokens" in done.stderr


def test_attention_writes_a_page(tiny_folder, tmp_path):
    (row,) = succeeds(
        "attention", tiny_folder, "你好 <script>alert(1)</script>", "second", "-o", tmp_path / "page.html"
    )
    page = (tmp_path / "page.html").read_text()
    assert row["layers"] == 2
    assert "<script>alert" not in page
    assert "http://" not in page
    assert "https://" not in page


def test_convert_both_ways_keeps_every_number(tiny_folder, tiny, tmp_path):
    import torch

    from bertkit.hub import ModelFolder, load_model

    succeeds("convert", tiny_folder, tmp_path / "theirs", "--to", "BertForPreTraining", "--shard-size", "1MB")
    assert not (tmp_path / "theirs" / "bertkit.json").exists()
    assert len(list((tmp_path / "theirs").glob("model-*.safetensors"))) > 1
    succeeds("convert", tmp_path / "theirs", tmp_path / "ours")
    back = load_model(ModelFolder(tmp_path / "ours")).model.state_dict()
    assert all(torch.equal(tensor, back[name]) for name, tensor in tiny.state_dict().items())
    (facts,) = succeeds("info", tmp_path / "ours")
    assert facts["provenance"]["converted_from"] == "theirs"


def test_convert_keeps_how_sentence_vectors_are_made(minilm, tmp_path):
    succeeds("convert", minilm, tmp_path / "ours")
    ours, theirs = bertkit.load_encoder(tmp_path / "ours"), bertkit.load_encoder(minilm)
    assert (ours.default_pooling, ours.default_normalize) == (theirs.default_pooling, True)
    np.testing.assert_array_equal(ours.embed("a text"), theirs.embed("a text"))


def test_wrong_usage_is_exit_code_2(tiny_folder, tmp_path):
    (tmp_path / "t.txt").write_text("x\n")
    assert "No such command" in fails(2, "embedd")
    assert "MODEL" in fails(2, "embed")
    assert "layers 'x' is not understood" in fails(2, "embed", tiny_folder, "-t", "a", "--layers", "x")
    assert "pooling is 'sum'" in fails(2, "embed", tiny_folder, "-t", "a", "--pooling", "sum")
    assert "level is 'char'" in fails(2, "embed", tiny_folder, "-t", "a", "--level", "char")
    assert "ends in '.txt'" in fails(2, "embed", tiny_folder, "-t", "a", "-o", tmp_path / "v.txt")
    assert ".npy cannot hold words" in fails(
        2, "embed", tiny_folder, "-t", "a", "--level", "word", "-o", tmp_path / "v.npy"
    )
    assert "both --text and the file" in fails(2, "embed", tiny_folder, tmp_path / "t.txt", "-t", "a")
    assert "no masked-word head" in fails(2, "fill-mask", bare(tiny_folder, tmp_path), "a [MASK]")
    assert "500MB" in fails(2, "convert", tiny_folder, tmp_path / "x", "--shard-size", "big")
    assert "has no masked-word head" in fails(
        2, "convert", tmp_path / "bare", tmp_path / "x", "--to", "BertForMaskedLM"
    )
    assert not (tmp_path / "x").exists()


def bare(tiny_folder: Path, tmp_path: Path) -> Path:
    succeeds("convert", tiny_folder, tmp_path / "bare", "--to", "BertModel")
    return tmp_path / "bare"


def test_wrong_data_is_exit_code_3(tiny_folder, tmp_path):
    assert "no [MASK] in 'x'" in fails(3, "fill-mask", tiny_folder, "x")
    assert "line 2: byte 0xff" in fails(3, "embed", tiny_folder, "-o", tmp_path / "v.npy", stdin=b"one\n\xff\n")
    assert "line 2: empty text" in fails(3, "embed", tiny_folder, "-o", tmp_path / "v.npy", stdin=b"one\n\n")
    assert "text 1 is empty" in fails(3, "embed", tiny_folder, "-t", " ")
    assert "has no texts" in fails(3, "embed", tiny_folder)
    assert "does not exist" in fails(3, "embed", tiny_folder, tmp_path / "nothing.txt")
    assert "there is no folder" in fails(3, "info", "./nothing")
    assert "exists and is not empty" in fails(3, "convert", tiny_folder, tiny_folder)
    assert "the text is empty" in fails(3, "attention", tiny_folder, "", "-o", tmp_path / "a.html")
    assert "--truncate" in fails(3, "attention", tiny_folder, "word " * 600, "-o", tmp_path / "a.html")
    assert list(tmp_path.iterdir()) == []


def test_arguments_that_are_not_utf8_are_refused_as_files_are(tiny_folder, tmp_path):
    for command in ("embed", "attention", "fill-mask"):
        arguments = [b"-t", b"a\xff"] if command == "embed" else [b"a\xff"]
        done = subprocess.run(
            [sys.executable, "-m", "bertkit", command, str(tiny_folder), *arguments], capture_output=True, cwd=tmp_path
        )
        assert done.returncode == 3
        assert b"is not UTF-8" in done.stderr
        assert done.stderr.count(b"\n") == 1


def test_a_full_disk_behind_stdout_is_one_line(tiny_folder):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    command = [sys.executable, "-m", "bertkit", "info", str(tiny_folder)]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3
    assert done.stderr == "bertkit: No space left on device\n"


def test_options_for_texts_are_refused_for_words(tiny_folder):
    for option in (["--long", "error"], ["--normalize"], ["--pooling", "cls"]):
        assert "for texts, not for words" in fails(2, "embed", tiny_folder, "-t", "a", "--level", "word", *option)


def test_an_unknown_config_key_is_told_once(tiny_folder, tmp_path):
    folder = tmp_path / "odd"
    shutil.copytree(tiny_folder, folder)
    (folder / "bertkit.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"team": "blue"}))
    for words in (("info", folder), ("embed", folder, "-t", "a")):
        done = bertkit_command(*words)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("keys that bertkit does not know are passed over: 'team'\n") == 1


def test_an_interrupt_is_one_line_and_leaves_nothing(tiny_folder, tmp_path):
    command = [sys.executable, "-m", "bertkit", "embed", str(tiny_folder), "-o", str(tmp_path / "v.npy")]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stderr is not None
    child.stdin.write(b"one\n")
    child.stdin.flush()
    time.sleep(4)
    child.send_signal(signal.SIGINT)
    stderr = child.stderr.read().decode()
    assert child.wait() == 4, stderr
    assert stderr == "bertkit: interrupted; no file was written\n"
    assert list(tmp_path.iterdir()) == []
    child.stdin.close()
    child.stderr.close()


def test_a_reader_that_has_seen_enough_is_no_error(tiny_folder, english, tmp_path):
    (tmp_path / "t.txt").write_text("\n".join(english[:3000]))
    command = f"{sys.executable} -m bertkit embed {tiny_folder} {tmp_path / 't.txt'} | head -1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)
    assert json.loads(done.stdout)["text"] == english[0]
    assert done.stderr == ""
    assert done.returncode == 0


def test_the_demo_makes_what_it_says(tmp_path):
    (tmp_path / "demo" / "model").mkdir(parents=True)
    (tmp_path / "demo" / "model" / "mine").write_text("not the demo's to delete")
    assert "exists and is not empty" in fails(3, "demo", "--out", tmp_path / "demo")
    (tmp_path / "demo" / "model" / "mine").unlink()
    (facts,) = succeeds("demo", "--minutes", 0.1, "--out", tmp_path / "demo")
    assert facts["reloaded"] == "bit for bit the same"
    assert (tmp_path / "demo" / "attention.html").exists()
    succeeds("info", tmp_path / "demo" / "model")
