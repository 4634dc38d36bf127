"""The random order of rows, as a pure function of (number of rows, seed, epoch).

Row i has the key U_i, word i of a Philox4x64-10 stream; the shuffled dataset is the rows in ascending (U_i, i). Keys
can be recomputed anywhere, in any order, so nobody stores a permutation:

- `KeyStream` yields the keys of any range of rows;
- `find_splitters` cuts the order into piles of exact size (`Splitters`), without reading data;
- `Permutation` gives any part of the order and of its inverse.
"""

from shuffle_tasks.randomness.order_statistics import (
    Located,
    Pairs,
    find_splitters,
    finish,
    histogram_bits,
    key_histogram,
    locate,
    select,
)
from shuffle_tasks.randomness.ordering import stable_order
from shuffle_tasks.randomness.permutation import Permutation
from shuffle_tasks.randomness.splitters import PileTable, Splitters, max_segment_rows
from shuffle_tasks.randomness.streams import KeyStream, Purpose

__all__ = [
    "KeyStream",
    "Located",
    "Pairs",
    "Permutation",
    "PileTable",
    "Purpose",
    "Splitters",
    "find_splitters",
    "finish",
    "histogram_bits",
    "key_histogram",
    "locate",
    "max_segment_rows",
    "select",
    "stable_order",
]
