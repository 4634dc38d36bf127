"""Row hashes and digests: the formula, every dtype and layout, and what the certificate must notice."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from shuffle_tasks import row_hash
from shuffle_tasks.errors import RequestError
from shuffle_tasks.randomness import KeyStream, Permutation, Purpose
from shuffle_tasks.row_hash import Digest, RowHasher, binding_digest, content_digest, mix, order_digest

quick = settings(deadline=None, database=None, max_examples=60)
GOLDEN_HASHES = ["07e8c8379a712634", "dab7eb539796fd0f", "da34c20d552b44fc", "89eafb092c71201d"]
GOLDEN_CONTENT = "e21d8a44ef9c6b3064a2e65cc4081d2c"
GOLDEN_BINDING = "a7fd539afc9b7887e3159acb39956226"
GOLDEN_ORDER = "923fb3fe37b6c93c2648f7f56237eafc"

digests = st.builds(Digest, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))


def nbytes_of(rows: NDArray[np.generic]) -> int:
    """Return the bytes of one row."""
    return rows.dtype.itemsize * int(np.prod(rows.shape[1:], dtype=int))


def hashes_of(*variables: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Hash rows of whole variables."""
    hasher = RowHasher([nbytes_of(rows) for rows in variables])
    sums = hasher.zeros(len(variables[0]))
    for variable, rows in enumerate(variables):
        hasher.add(sums, variable, rows)
    return hasher.finish(sums)


def finalise(value: int) -> int:
    """Apply splitmix64's finaliser, in Python's integers."""
    value = (value + 0x9E3779B97F4A7C15) % 2**64
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
    return value ^ (value >> 31)


def plain_hashes(*variables: list[bytes]) -> list[list[int]]:
    """Hash rows given as bytes by the documented formula, in Python's integers: the oracle."""
    result = []
    for row in zip(*variables, strict=True):
        sums = [sum(len(data) for data in row)] * 2
        for variable, data in enumerate(row):
            words = np.frombuffer(data.ljust(-(-len(data) // 8) * 8, b"\0"), "<u8").tolist()
            drawn = KeyStream(variable, purpose=Purpose.ROW_HASH).words(0, 4 * len(words)).reshape(-1, 4).tolist()
            for word, (a0, a1, b0, b1) in zip(words, drawn, strict=True):
                sums[0] += word * a0 + (word >> 32) * b0
                sums[1] += word * a1 + (word >> 32) * b1
        result.append([finalise(value % 2**64) for value in sums])
    return result


def random_bytes(rows: int, nbytes: int, seed: int = 0) -> NDArray[np.uint8]:
    """Return rows of random bytes."""
    words = KeyStream(seed).words(0, -(-rows * nbytes // 8))
    return words.view(np.uint8)[: rows * nbytes].reshape(rows, nbytes)


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


@quick
@given(st.lists(digests, min_size=1, max_size=5), st.randoms())
def test_digests_add_up_in_any_order(parts: list[Digest], random: object) -> None:
    """The sum of digests does not depend on their order, has a zero, and survives its text form."""
    total = sum(parts, Digest.zero())
    random.shuffle(parts)  # type: ignore[attr-defined]
    assert sum(parts, Digest.zero()) == total
    assert Digest.from_hex(total.hex()) == total
    assert len(total.hex()) == 32
    assert total.first == sum(part.first for part in parts) % 2**64


def test_wrong_digests_are_refused() -> None:
    """Text that is no digest, numbers out of range and sums with other things are refused."""
    for text in ("", "0" * 31, "0" * 33, "g" * 32, "+" + "0" * 31, "0x" + "0" * 30, " " * 32):
        with pytest.raises(RequestError, match="32 hexadecimal digits"):
            Digest.from_hex(text)
    with pytest.raises(RequestError, match="second must be"):
        Digest(0, 2**64)
    with pytest.raises(TypeError):
        Digest(0, 0) + 1  # type: ignore[operator]


@quick
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 2**62))
def test_digests_of_parts_make_the_digest_of_the_whole(cut: int, rows: int, start: int) -> None:
    """Content, binding and order digests of two parts add up to those of all rows."""
    hashes, keys = hashes_of(random_bytes(rows, 9)), KeyStream(1).words(0, rows)
    cut = min(cut, rows)
    assert content_digest(hashes[:cut]) + content_digest(hashes[cut:]) == content_digest(hashes)
    parts = binding_digest(hashes[cut:], keys[cut:]) + binding_digest(hashes[:cut], keys[:cut])
    assert parts == binding_digest(hashes, keys)
    assert order_digest(hashes[:cut], start) + order_digest(hashes[cut:], start + cut) == order_digest(hashes, start)


@quick
@given(st.integers(1, 50), st.integers(0, 2**64 - 1))
def test_mix_is_keyed_and_binding_is_its_sum(rows: int, seed: int) -> None:
    """The binding digest is the plain sum of mixes, and differs from the order digest of the same words."""
    hashes, keys = hashes_of(random_bytes(rows, 9)), KeyStream(seed).words(0, rows)
    mixed = mix(hashes, keys).tolist()
    first, second = (sum(row[k] for row in mixed) % 2**64 for k in range(2))
    assert binding_digest(hashes, keys) == Digest(first, second)
    assert binding_digest(hashes, np.arange(rows, dtype=np.uint64)) != order_digest(hashes, 0)


N = 1000
IMAGES = random_bytes(N, 4 * 33, seed=6).view(np.float32)
LABELS = np.arange(N, dtype=np.int16) % 10
KEYS = KeyStream(5).words(0, N)


def two_signs(images: NDArray[np.float32], labels: NDArray[np.int16]) -> None:
    """Flip the sign bits of two values of one row, which odd multipliers alone would miss."""
    images.view(np.uint32)[7, [3, 9]] ^= np.uint32(2**31)


def two_signs_in_two_rows(images: NDArray[np.float32], labels: NDArray[np.int16]) -> None:
    """Flip the same sign bit in two rows."""
    images.view(np.uint32)[[7, 8], 3] ^= np.uint32(2**31)


def rolled_labels(images: NDArray[np.float32], labels: NDArray[np.int16]) -> None:
    """Give every row the label of its neighbour."""
    labels[:] = np.roll(labels, 1)


def repeated_row(images: NDArray[np.float32], labels: NDArray[np.int16]) -> None:
    """Write one row twice, and lose another."""
    images[4], labels[4] = images[5], labels[5]


def swapped_words(images: NDArray[np.float32], labels: NDArray[np.int16]) -> None:
    """Exchange two words of one row."""
    images[3, [0, 1, 2, 3]] = images[3, [2, 3, 0, 1]]


def swapped_halves(images: NDArray[np.float32], labels: NDArray[np.int16]) -> None:
    """Exchange the halves of one word."""
    images[3, [0, 1]] = images[3, [1, 0]]


def exchanged_values(images: NDArray[np.float32], labels: NDArray[np.int16]) -> None:
    """Exchange the values of one column between two rows."""
    images[[3, 4], 5] = images[[4, 3], 5]


def between_variables(images: NDArray[np.float32], labels: NDArray[np.int16]) -> None:
    """Exchange two bytes between the variables of one row."""
    image, label = images.view(np.uint8)[3], labels[3:4].view(np.uint8)
    image[:2], label[:] = label.copy(), image[:2].copy()


def last_bit(images: NDArray[np.float32], labels: NDArray[np.int16]) -> None:
    """Flip one bit of the last, padded word."""
    images.view(np.uint8)[-1, -1] ^= 1


@pytest.mark.parametrize(
    "damage",
    [
        two_signs,
        two_signs_in_two_rows,
        rolled_labels,
        repeated_row,
        swapped_words,
        swapped_halves,
        exchanged_values,
        between_variables,
        last_bit,
    ],
)
def test_damage_changes_the_content(damage: Callable[[NDArray[np.float32], NDArray[np.int16]], None]) -> None:
    """Damage that keeps sizes, and often every plain sum, changes both halves of content and binding digests."""
    images, labels = IMAGES.copy(), LABELS.copy()
    damage(images, labels)
    before, after = hashes_of(IMAGES, LABELS), hashes_of(images, labels)
    for old, new in (
        (content_digest(before), content_digest(after)),
        (binding_digest(before, KEYS), binding_digest(after, KEYS)),
    ):
        assert old.first != new.first
        assert old.second != new.second


def test_a_shuffle_keeps_content_and_binding() -> None:
    """Rows that take their keys along keep both digests; rows left in place, under sorted keys, lose the binding."""
    hashes, order = hashes_of(IMAGES, LABELS), Permutation(N, 5).source_rows(0, N)
    shuffled = hashes_of(IMAGES[order], LABELS[order])
    ascending = KEYS[order]
    assert np.all(ascending[:-1] <= ascending[1:])
    assert content_digest(shuffled) == content_digest(hashes)
    assert binding_digest(shuffled, ascending) == binding_digest(hashes, KEYS)
    assert binding_digest(hashes, ascending) != binding_digest(hashes, KEYS)
    assert order_digest(shuffled, 0) != order_digest(hashes, 0)


def test_two_exchanged_rows_lose_binding_and_order() -> None:
    """Exchanging two rows keeps the content, and changes binding and order."""
    hashes = hashes_of(IMAGES, LABELS)
    exchanged = hashes.copy()
    exchanged[[10, 11]] = hashes[[11, 10]]
    assert content_digest(exchanged) == content_digest(hashes)
    assert binding_digest(exchanged, KEYS) != binding_digest(hashes, KEYS)
    assert order_digest(exchanged, 0) != order_digest(hashes, 0)
    assert order_digest(hashes, 1) != order_digest(hashes, 0)


def test_all_pairs_of_sign_flips_are_noticed() -> None:
    """No two of 2016 pairs of flipped sign bits collide, nor with the row itself (false alarm: below 1e-12)."""
    first, second = np.triu_indices(64, 1)
    rows = np.tile(random_bytes(1, 512).view(np.uint64), (len(first) + 1, 1))
    rows[np.arange(len(first)), first] ^= np.uint64(2**63)
    rows[np.arange(len(first)), second] ^= np.uint64(2**63)
    assert len(np.unique(hashes_of(rows), axis=0)) == len(rows)


def test_one_bit_moves_half_of_the_hash() -> None:
    """Flipping any bit of a row, or of a key, flips 32 of 64 bits on average, within 5.5 sigma (false alarm: 2e-7)."""
    bits = np.packbits(np.eye(512, dtype=np.uint8), axis=1)
    row = random_bytes(1, 64)
    changes = [hashes_of(row ^ bits) ^ hashes_of(row)]
    keys = KEYS[0] ^ (np.uint64(1) << np.arange(64, dtype=np.uint64))
    hashes = hashes_of(np.repeat(row, 65, axis=0))
    mixed = mix(hashes, np.append(keys, KEYS[0]))
    changes.append(mixed[:-1] ^ mixed[-1])
    for change in changes:
        flipped = np.bitwise_count(change).mean(axis=0)
        assert np.all(np.abs(flipped - 32) < 5.5 * 4 / np.sqrt(len(change)))


def test_hashes_of_similar_rows_are_uniform() -> None:
    """The hashes of the first 2**16 integers fill 256 bins evenly (chi-square of 255, false alarm: 1e-6)."""
    hashes = hashes_of(np.arange(2**16))
    for k in range(2):
        counts = np.bincount((hashes[:, k] >> np.uint64(56)).astype(int), minlength=256)
        assert ((counts - 256.0) ** 2 / 256).sum() < 375


@pytest.mark.parametrize("step", [1, 2])
def test_memory_is_that_of_a_block(step: int) -> None:
    """Hashing 32 MiB of rows, where they are or through copies, takes a few MiB, constants of long rows included."""
    rows = np.zeros((4 * step, 2**23 + (step - 1)), np.uint8)[::step]
    hasher = RowHasher([rows.shape[1]])
    sums = hasher.zeros(len(rows))
    tracemalloc.start()
    hasher.add(sums, 0, rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    row_hash._many_constants.cache_clear()
    assert peak < 26 * 2**20 + (step - 1) * 2 * rows.shape[1]
