"""Key streams: golden values, addressing by index, validation, and the quality of the words."""

import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffle_tasks.errors import RequestError
from shuffle_tasks.randomness import KeyStream, Purpose

quick = settings(deadline=None, database=None, max_examples=60)
seeds = st.integers(0, 2**64 - 1)

GOLDEN = [
    (0, 0, [0x68F2A1CB1907A6F3, 0xA56C242DB0A03161, 0xF54610F42F089295, 0x036C2AC25C0249D1]),
    (0, 10**9, [0xE88C10BCF30DB2B0]),
    (9176, 0, [0x741CDD8F30155A00]),
    (2**63 + 5, 0, [0x5561D808E2F736D5]),
]


@pytest.mark.parametrize(("seed", "start", "expected"), GOLDEN)
def test_words_are_golden(seed: int, start: int, expected: list[int]) -> None:
    """The words of a seed never change: runs made by any version must agree."""
    assert KeyStream(seed).words(start, start + len(expected)).tolist() == expected


@quick
@given(seeds, st.integers(0, 2**62), st.integers(0, 70), st.integers(0, 70))
def test_words_depend_on_their_index_only(seed: int, origin: int, start: int, length: int) -> None:
    """Any range of words is the slice of a longer range."""
    stream = KeyStream(seed)
    whole = stream.words(origin, origin + 140)
    np.testing.assert_array_equal(stream.words(origin + start, origin + start + length), whole[start : start + length])


@quick
@given(st.integers(0, 100), st.integers(0, 300), st.integers(1, 90))
def test_blocks_make_up_the_range(start: int, length: int, size: int) -> None:
    """Blocks follow each other, are as long as asked, and hold the words of the range."""
    stream = KeyStream(3)
    blocks = list(stream.blocks(start, start + length, size))
    assert [first for first, _ in blocks] == list(range(start, start + length, size))
    assert all(len(words) == size for _, words in blocks[:-1])
    joined = np.concatenate([np.empty(0, np.uint64), *(words for _, words in blocks)])
    np.testing.assert_array_equal(joined, stream.words(start, start + length))


def test_ranges_longer_than_a_block_are_seamless() -> None:
    """Words on both sides of a border between internal blocks are those of their indices."""
    stream = KeyStream(1)
    words = stream.words(3, 3 + 2**18 + 10)
    np.testing.assert_array_equal(words[2**18 - 5 :], stream.words(2**18 - 2, 2**18 + 13))


@quick
@given(seeds, st.integers(1, 64))
def test_bits_keep_the_leading_bits(seed: int, bits: int) -> None:
    """A stream of few bits has the leading bits of the full stream, and zeros."""
    full, kept = KeyStream(seed).words(0, 20).tolist(), KeyStream(seed, bits=bits).words(0, 20).tolist()
    assert kept == [word >> (64 - bits) << (64 - bits) for word in full]


def test_streams_differ_in_every_parameter() -> None:
    """Each parameter selects another stream, also when two of them are exchanged."""
    streams = [
        KeyStream(0),
        KeyStream(1),
        KeyStream(2**32),
        KeyStream(0, 1),
        KeyStream(0, 2),
        KeyStream(0, purpose=Purpose.TRANSFORM_ORDER),
        KeyStream(0, purpose=Purpose.ROW_HASH),
        KeyStream(0, block=1),
        KeyStream(0, source=1),
    ]
    words = np.concatenate([stream.words(0, 1000) for stream in streams])
    assert len(np.unique(words)) == len(words)


def test_sub_streams_follow_the_documented_counter() -> None:
    """Word r of a sub-stream is read at counter [r >> 2, block, source, 0] under the purpose's key."""
    bits = np.random.Philox(key=np.array([7, 2 << 32 | 9], "u8"), counter=np.array([25, 4, 5, 0], "u8"))
    stream = KeyStream(7, 9, Purpose.TRANSFORM_ORDER, block=4, source=5)
    np.testing.assert_array_equal(stream.words(101, 108), bits.random_raw(8)[1:])


def test_numpy_integers_are_python_integers() -> None:
    """NumPy integers make the same stream, with the same hash and the same pickle."""
    ours = KeyStream(np.uint64(2**63 + 5), np.int64(3), bits=np.uint8(64))  # type: ignore[arg-type]
    plain = KeyStream(2**63 + 5, 3)
    assert ours == plain
    assert hash(ours) == hash(plain)
    assert pickle.loads(pickle.dumps(ours)) == plain
    np.testing.assert_array_equal(ours.words(np.int64(2), np.uint8(9)), plain.words(2, 9))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", -1),
        ("seed", 2**64),
        ("seed", True),
        ("seed", np.True_),
        ("seed", 1.0),
        ("seed", "1"),
        ("seed", None),
        ("epoch", -1),
        ("epoch", 2**32),
        ("epoch", False),
        ("bits", 0),
        ("bits", 65),
        ("purpose", 0),
        ("purpose", 99),
        ("block", 2**64),
        ("source", -1),
    ],
)
def test_wrong_parameters_are_refused(name: str, value: object) -> None:
    """A value that names no stream is refused, and the message names the parameter."""
    with pytest.raises(RequestError, match=name):
        KeyStream(**{"seed": 0, name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (3, 2), (-3, -1), (0, 2**63 + 1)])
def test_wrong_ranges_are_refused(start: int, stop: int) -> None:
    """A range that is reversed, negative or beyond the row numbers is refused at once."""
    with pytest.raises(ValueError, match="range of words"):
        KeyStream(0).words(start, stop)
    with pytest.raises(ValueError, match="range of words"):
        KeyStream(0).blocks(start, stop)
    with pytest.raises(ValueError, match="at least one word"):
        KeyStream(0).blocks(0, 1, 0)


def test_peak_memory_is_the_output() -> None:
    """Generating 16 MiB of words takes no more than the output and a few blocks."""
    tracemalloc.start()
    words = KeyStream(0).words(0, 2**21)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < words.nbytes + 3 * 2**21


def test_every_bit_is_fair_and_independent_of_its_neighbour() -> None:
    """Each of 64 bits, and of 64 pairs of successive words' bits, is fair within 5.5 sigma (false alarm: 5e-6)."""
    words = KeyStream(20).words(0, 2**16)
    for values in (words, words[1:] ^ words[:-1]):
        ones = np.unpackbits(values.view(np.uint8)).reshape(len(values), 64).sum(axis=0, dtype=np.int64)
        assert np.all(np.abs(ones - len(values) / 2) < 5.5 * np.sqrt(len(values)) / 2)
