"""Options as people write them: sizes, codecs, and the row dimension."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffle_tasks import RequestError
from shuffle_tasks.planning.codec_choice import parse_codec
from shuffle_tasks.planning.rowdim import NamedArray, choose_rows
from shuffle_tasks.planning.sizes import format_bytes, parse_bytes

moderate = settings(deadline=None, database=None, derandomize=True, max_examples=150)
MIB = 2**20


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("512 MiB", 512 * MIB),
        ("4GB", 4 * 10**9),
        ("1e9", 10**9),
        ("4GiB", 2**32),
        ("1.5k", 1500),
        (".5 KiB", 512),
        ("7", 7),
        ("7 b", 7),
        (" 2 tib ", 2**41),
        ("1E3", 1000),
        ("3.mb", 3 * 10**6),
        (1e6, 10**6),
        (2048, 2048),
        ("1e3 kB", 10**6),
    ],
)
def test_sizes_as_people_write_them(text: Any, count: int) -> None:
    """Decimal and binary units, spaces, capitals and powers of ten are read."""
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    "text", ["", "GB", "-1", "1 XB", "0", "1e-3", "nan", "inf", "1,5 GB", "1 GB 2", "0x10", "1e30", "0.4", None, True]
)
def test_sizes_that_make_no_sense(text: Any) -> None:
    """Anything else is refused with examples."""
    with pytest.raises(RequestError, match="512 MiB"):
        parse_bytes(text)


@moderate
@given(st.integers(1, 2**50))
def test_formatted_sizes_are_read_back(count: int) -> None:
    """What is printed can be typed, and is right to five per cent."""
    assert math.isclose(parse_bytes(format_bytes(count)), count, rel_tol=0.05)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("none", ("none", 0, "", "")),
        ("gzip", ("gzip", 5, "", "")),
        ("gzip:0", ("gzip", 0, "", "")),
        ("zstd", ("zstd", 3, "", "")),
        ("zstd:-7", ("zstd", -7, "", "")),
        ("blosc", ("blosc", 5, "zstd", "shuffle")),
        ("BLOSC:LZ4", ("blosc", 5, "lz4", "shuffle")),
        ("blosc:zstd:1", ("blosc", 1, "zstd", "shuffle")),
        ("blosc::9:bitshuffle", ("blosc", 9, "zstd", "bitshuffle")),
    ],
)
def test_codecs_as_people_write_them(text: str, fields: tuple[Any, ...]) -> None:
    """Codecs are read with their defaults."""
    choice = parse_codec(text)
    assert (choice.name, choice.level, choice.cname, choice.shuffle) == fields


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lzma",
        "none:1",
        "gzip:10",
        "zstd:23",
        "zstd:1:2",
        "zstd:fast",
        "blosc:snappy",
        "blosc:zstd:10",
        "blosc:zstd:1:twist",
        "blosc:zstd:1:shuffle:4",
        "blosc:zstd:1.5",
    ],
)
def test_codecs_that_make_no_sense(text: str) -> None:
    """Anything else is refused, with what can be written."""
    with pytest.raises(RequestError, match="codec"):
        parse_codec(text)


def named(path: str, dims: str | None, *shape: int) -> NamedArray:
    """Return an array with dimension names of one letter."""
    return NamedArray(path, shape, None if dims is None else tuple(dims))


@pytest.mark.parametrize(
    ("arrays", "row_dim", "dim", "rows", "copies"),
    [
        ([named("", None, 5, 2)], None, None, [""], []),
        ([named("", "r", 5)], None, "r", [""], []),
        ([named("x", "ry", 5, 2), named("r", "r", 5), named("y", "y", 2)], None, "r", ["x", "r"], ["y"]),
        ([named("r", "r", 5)], None, "r", ["r"], []),
        ([named("x", "ry", 5, 2), named("p", "y", 2)], "r", "r", ["x"], ["p"]),
        ([named("x", "r", 5), named("s", "", *())], None, "r", ["x"], ["s"]),
        ([named("x", None, 5), named("y", None, 5), named("s", None, *())], None, None, ["x", "y"], ["s"]),
        ([named("x", "r", 5), named("g/y", "r", 5), named("g/k", "k", 3)], "r", "r", ["x", "g/y"], ["g/k"]),
        ([named("x", "r", 5), named("u", None, 5), named("w", None, 4)], None, "r", ["x", "u"], ["w"]),
    ],
)
def test_rows_are_chosen(
    arrays: list[NamedArray], row_dim: str | None, dim: str | None, rows: list[str], copies: list[str]
) -> None:
    """The row dimension is the only first dimension of the variables, or the one asked for; the rest is copied."""
    choice = choose_rows(arrays, row_dim, source="s")
    assert (choice.dim, list(choice.rows), list(choice.copies)) == (dim, rows, copies)
    assert choice.n == 5


@pytest.mark.parametrize(
    ("arrays", "row_dim", "said"),
    [
        ([], None, "no row dimension"),
        ([named("s", "", *())], None, "no row dimension"),
        ([named("x", "r", 5), named("y", "q", 5)], None, "several candidates.*'r', 'q'"),
        ([named("x", "r", 5)], "q", "no dimension 'q'.*'r'"),
        ([named("x", None, 5)], "q", "no dimension 'q'"),
        ([named("x", "r", 5), named("y", "r", 6)], None, "differ in length.*5.*6"),
        ([named("x", "r", 5), named("y", "yr", 2, 5)], "r", "'y'.*axis 1"),
        ([named("x", None, 5), named("y", None, 6)], None, "differ in length"),
    ],
)
def test_rows_that_cannot_be_chosen(arrays: list[NamedArray], row_dim: str | None, said: str) -> None:
    """Doubtful row dimensions are refused with the candidates."""
    with pytest.raises(RequestError, match=said):
        choose_rows(arrays, row_dim, source="s")
