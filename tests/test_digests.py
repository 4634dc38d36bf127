"""Digests of rows: how they add up, and what the certificate must notice."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from row_bytes import hashes_of, random_bytes

from shuffle_tasks import row_hash
from shuffle_tasks.errors import RequestError
from shuffle_tasks.randomness import KeyStream, Permutation
from shuffle_tasks.row_hash import Digest, RowHasher, binding_digest, content_digest, mix, order_digest

quick = settings(deadline=None, database=None, derandomize=True, max_examples=60)
digests = st.builds(Digest, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))


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
