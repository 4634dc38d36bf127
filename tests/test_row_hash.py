"""Row hashes: the formula, every dtype and layout, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from row_bytes import finalise, hashes_of, plain_hashes, random_bytes

from shuffle_tasks import row_hash
from shuffle_tasks.errors import RequestError
from shuffle_tasks.randomness import KeyStream
from shuffle_tasks.row_hash import Digest, RowHasher, binding_digest, content_digest, mix, order_digest

quick = settings(deadline=None, database=None, derandomize=True, max_examples=60)
GOLDEN_HASHES = ["07e8c8379a712634", "dab7eb539796fd0f", "da34c20d552b44fc", "89eafb092c71201d"]
GOLDEN_CONTENT = "e21d8a44ef9c6b3064a2e65cc4081d2c"
GOLDEN_BINDING = "a7fd539afc9b7887e3159acb39956226"
GOLDEN_ORDER = "923fb3fe37b6c93c2648f7f56237eafc"


scalar_types = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(sizes=(64, 128)),
    hnp.datetime64_dtypes(),
    hnp.timedelta64_dtypes(),
    hnp.byte_string_dtypes(min_len=1, max_len=9),
    hnp.unicode_string_dtypes(min_len=1, max_len=5),
)


@st.composite
def batches(draw: st.DrawFn) -> NDArray[np.generic]:
    """Draw rows of any shape and dtype, in either byte order, filled with any bits."""
    dtype = draw(scalar_types)
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=7))
    count = int(np.prod(shape))
    if dtype.kind == "U":
        return np.resize(np.array(["", "a", "\u00e4\u00df", "xyz\U0001f600"]), shape).astype(dtype)
    raw = random_bytes(1, max(1, count * dtype.itemsize), draw(st.integers(0, 99)))[0, : count * dtype.itemsize]
    if dtype.kind == "b":
        raw &= 1
    rows: NDArray[np.generic] = raw.view(dtype).reshape(shape)
    return rows


@quick
@given(batches())
def test_hash_is_the_documented_formula(rows: NDArray[np.generic]) -> None:
    """The hash is the formula over the little-endian bytes of a row, for every dtype, shape and byte order."""
    little = rows.astype(rows.dtype.newbyteorder("<"))
    # Slices, because a single string gives up its trailing zeros.
    assert hashes_of(rows).tolist() == plain_hashes([little[at : at + 1].tobytes() for at in range(len(rows))])


@quick
@given(batches())
def test_layout_does_not_count(rows: NDArray[np.generic]) -> None:
    """Views, Fortran order, strides and read-only or misaligned memory have the hashes of a plain copy."""
    expected = hashes_of(rows).tolist()
    rows.flags.writeable = False
    strided = np.repeat(np.repeat(rows, 2, axis=0), 3, axis=-1)[::2, ..., ::3] if rows.ndim > 1 else rows[::-1][::-1]
    buffer = np.frombuffer(b"x" + rows.tobytes(), rows.dtype, rows.size, 1) if rows.size else rows
    for other in (rows, np.asfortranarray(rows), strided, buffer.reshape(rows.shape)):
        assert hashes_of(other).tolist() == expected
    assert hashes_of(rows[::-1]).tolist() == expected[::-1]


@pytest.mark.parametrize("block_words", [1, 5, 64])
@pytest.mark.parametrize("column_words", [1, 3, 64])
@pytest.mark.parametrize("narrow_words", [0, 1, 16])
@pytest.mark.parametrize("nbytes", [8, 13, 16, 80, 83])
def test_blocks_do_not_count(
    monkeypatch: pytest.MonkeyPatch, block_words: int, column_words: int, narrow_words: int, nbytes: int
) -> None:
    """However the work is cut into blocks, the hashes are those of the formula."""
    monkeypatch.setattr(row_hash, "BLOCK_WORDS", 8 * block_words)
    monkeypatch.setattr(row_hash, "COLUMN_WORDS", column_words)
    monkeypatch.setattr(row_hash, "NARROW_WORDS", narrow_words)
    monkeypatch.setattr(row_hash, "SMALL_WORDS", 4)
    rows = random_bytes(23, nbytes)
    assert hashes_of(rows).tolist() == plain_hashes([row.tobytes() for row in rows])


@quick
@given(st.integers(1, 120), st.integers(1, 10))
def test_pieces_add_up(nbytes: int, piece_words: int) -> None:
    """A row given in pieces of whole words, in any order, has the hash of the whole row."""
    rows, hasher = random_bytes(5, nbytes), RowHasher([3, nbytes])
    whole, sums = hasher.zeros(5), hasher.zeros(5)
    hasher.add(whole, 1, rows)
    for offset in reversed(range(0, -(-nbytes // 8), piece_words)):
        hasher.add(sums, 1, rows[:, 8 * offset : 8 * (offset + piece_words)], word_offset=offset)
    np.testing.assert_array_equal(sums, whole)


def test_hashes_are_golden() -> None:
    """The hashes of version 1 never change: stored certificates must stay comparable."""
    images = np.arange(2 * 784, dtype=np.uint16).astype(np.uint8).reshape(2, 28, 28)
    hashes = hashes_of(images, np.array([3, -1], np.int8))
    assert row_hash.ROW_HASH_VERSION == 1
    assert [f"{value:016x}" for value in hashes.ravel().tolist()] == GOLDEN_HASHES
    assert content_digest(hashes).hex() == GOLDEN_CONTENT
    assert binding_digest(hashes, KeyStream(0).words(0, 2)).hex() == GOLDEN_BINDING
    assert order_digest(hashes, 5).hex() == GOLDEN_ORDER


def test_structures_are_hashed_as_their_bytes() -> None:
    """Native structures, aligned or not, count with all their bytes; big-endian ones as if stored little-endian."""
    packed = np.dtype([("a", "<i2"), ("b", "<f8"), ("c", "S3")])
    aligned = np.dtype([("a", "<i2"), ("b", "<f8")], align=True)
    for dtype in (packed, aligned, np.dtype("V5")):
        raw = random_bytes(6, 2 * dtype.itemsize)
        expected = plain_hashes([row.tobytes() for row in raw])
        assert hashes_of(raw.view(dtype)).tolist() == expected
        assert hashes_of(raw.view(dtype)[::-2]).tolist() == expected[::-2]
    rows = random_bytes(6, packed.itemsize).view(packed)
    np.testing.assert_array_equal(hashes_of(rows.astype(packed.newbyteorder(">"))), hashes_of(rows))


def test_values_count_bit_for_bit() -> None:
    """Zero and minus zero differ, and so do NaNs of different payloads."""
    values = np.array([0, 2**63, 0x7FF8000000000000, 0x7FF8000000000001], np.uint64).view(np.float64)
    assert len(np.unique(hashes_of(values)[:, 0])) == 4


def test_empty_rows_and_no_rows() -> None:
    """Rows without bytes have the hash of their length, and no rows have no hashes and a zero digest."""
    assert hashes_of(np.zeros((3, 0)), np.zeros((3, 2, 0), "S4")).tolist() == [[finalise(0)] * 2] * 3
    none = hashes_of(np.zeros((0, 5)), np.zeros(0))
    assert none.shape == (0, 2)
    assert content_digest(none) == order_digest(none, 3) == binding_digest(none, KeyStream(0).words(0, 0))
    assert content_digest(none) == Digest.zero()


@pytest.mark.parametrize(
    ("variable", "rows", "offset", "message"),
    [
        (0, np.zeros((4, 3)), None, "do not fit"),
        (0, np.zeros((4, 1)), None, "do not fit"),
        (0, np.zeros((4, 2)), 1, "do not fit"),
        (0, np.zeros((4, 1)), -1, "do not fit"),
        (0, np.zeros((4, 12), "u1"), 0, "do not fit"),
        (1, np.zeros((4, 2)), None, "variable must be"),
        (-1, np.zeros((4, 2)), None, "variable must be"),
        (0, np.zeros((3, 2)), None, "sums must be"),
        (0, np.zeros(()), None, "sums must be|no fixed"),
        (0, np.zeros((4, 2), object), None, "no fixed bytes"),
        (0, np.zeros((4, 1), [("a", object), ("b", "i8")]), None, "no fixed bytes"),
        (0, np.zeros((4, 1), np.dtypes.StringDType()), None, "no fixed bytes"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    variable: int, rows: NDArray[np.generic], offset: int | None, message: str
) -> None:
    """Wrong shapes, pieces that are no whole words, and dtypes without fixed bytes are refused; nothing is added."""
    hasher = RowHasher([16])
    sums = hasher.zeros(4)
    with pytest.raises(ValueError, match=message):
        hasher.add(sums, variable, rows, word_offset=offset) if rows.ndim else hasher.add(sums[0], variable, rows)
    assert not sums.any()


def test_wrong_sizes_are_refused() -> None:
    """Row sizes that are negative or no integers, and mismatched shapes of digests, are refused."""
    for size in (-1, 1.5):
        with pytest.raises(RequestError, match="row_nbytes"):
            RowHasher([size])  # type: ignore[list-item]
    for hashes, words in ((np.zeros((3, 2), "u8"), np.zeros(2, "u8")), (np.zeros(3, "u8"), np.zeros(3, "u8"))):
        with pytest.raises(ValueError, match="shape"):
            mix(hashes, words)
