"""Tensors to files and back."""

from __future__ import annotations

import errno
import os

import pytest
import torch

from bertkit.tensors import parse_tensors, save_tensors


def test_tensors_come_back_aligned_as_torch_aligns_them(tmp_path):
    tensors = {f"{size}": torch.arange(float(size)) for size in range(1, 40)}
    save_tensors(tensors, tmp_path / "file")
    back = parse_tensors((tmp_path / "file").read_bytes())
    assert back.keys() == tensors.keys()
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)
    assert {tensor.data_ptr() % 64 for tensor in back.values()} == {0}


def test_a_view_is_saved_as_what_it_shows(tmp_path):
    matrix = torch.arange(12.0).reshape(3, 4)
    save_tensors({"turned": matrix.T, "repeated": torch.ones(1).expand(5)}, tmp_path / "file")
    back = parse_tensors((tmp_path / "file").read_bytes())
    assert torch.equal(back["turned"], matrix.T)
    assert torch.equal(back["repeated"], torch.ones(5))


def test_a_failed_write_says_what_the_system_said(tmp_path):
    (tmp_path / "file").write_text("no folder")
    for folder, number in (("nowhere", errno.ENOENT), ("file", errno.ENOTDIR)):
        with pytest.raises(OSError, match=os.strerror(number)) as caught:
            save_tensors({"x": torch.ones(1)}, tmp_path / folder / "file")
        assert caught.value.errno == number
