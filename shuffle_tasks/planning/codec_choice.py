"""The codec option: a short text such as "blosc:zstd:1:shuffle" as a small checked value.

Pure: it knows names and ranges, not codec implementations.
"""

from __future__ import annotations

from dataclasses import dataclass

from shuffle_tasks.errors import RequestError

_BLOSC = ("blosclz", "lz4", "lz4hc", "zlib", "zstd")
_SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
_LEVELS = {"blosc": (0, 9, 5), "zstd": (-7, 22, 3), "gzip": (0, 9, 5)}
_HINT = (
    'write "none", "gzip[:LEVEL]", "zstd[:LEVEL]" or "blosc[:CNAME[:LEVEL[:SHUFFLE]]]", such as "blosc:zstd:1:shuffle"'
)


@dataclass(frozen=True, slots=True)
class CodecChoice:
    """A compressor: `name` is none, gzip, zstd or blosc; the last two fields are for blosc only."""

    name: str
    level: int = 0
    cname: str = ""
    shuffle: str = ""


def _level(text: str, name: str) -> int:
    low, high, default = _LEVELS[name]
    try:
        level = int(text) if text else default
    except ValueError:
        raise RequestError(f"the level of codec {name} is a whole number; got {text!r}; {_HINT}") from None
    if not low <= level <= high:
        raise RequestError(f"the level of codec {name} is from {low} to {high}; got {level}")
    return level


def parse_codec(text: str) -> CodecChoice:
    """Return the compressor that `text` names.

    Raises
    ------
    RequestError
        If the name, level, blosc compressor or shuffle is unknown.
    """
    name, *rest = text.strip().lower().split(":")
    rest += [""] * (3 - len(rest))
    if name == "none" and not any(rest):
        return CodecChoice("none")
    if name in ("gzip", "zstd") and not any(rest[1:]):
        return CodecChoice(name, _level(rest[0], name))
    if name == "blosc" and len(rest) == 3:
        cname, shuffle = rest[0] or "zstd", rest[2] or "shuffle"
        if cname in _BLOSC and shuffle in _SHUFFLES:
            return CodecChoice(name, _level(rest[1], name), cname, shuffle)
    raise RequestError(f"unknown codec {text!r}: {_HINT}")
