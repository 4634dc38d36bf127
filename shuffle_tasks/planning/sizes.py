"""Byte sizes as people write them: "512 MiB", "4GB", "1e9"."""

from __future__ import annotations

import re

from shuffle_tasks.errors import RequestError

_UNITS = {"": 1, "b": 1}
_UNITS |= {f"{prefix}{tail}": 1000**power for power, prefix in enumerate("kmgtp", 1) for tail in ("", "b")}
_UNITS |= {f"{prefix}i{tail}": 1024**power for power, prefix in enumerate("kmgtp", 1) for tail in ("", "b")}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?(?:e[+]?[0-9]+)?|\.[0-9]+)\s*([a-z]*)\s*", re.IGNORECASE)


def parse_bytes(text: str | float) -> int:
    """Return the number of bytes that `text` names.

    Parameters
    ----------
    text
        A number of bytes, or a number with a decimal (kB, MB, GB …) or binary (KiB, MiB, GiB …) unit.

    Returns
    -------
    int
        Bytes, rounded down.

    Raises
    ------
    RequestError
        If `text` is not a positive size.
    """
    match = _SIZE.fullmatch(str(text))
    unit = _UNITS.get(match[2].lower()) if match else None
    value = float(match[1]) * unit if match and unit else 0.0
    if not 1 <= value < 2**63:
        raise RequestError(f'a size is a positive number with a unit, such as "512 MiB", "4GB" or "1e9"; got {text!r}')
    return int(value)


def format_bytes(count: float) -> str:
    """Return `count` bytes as a short readable text in binary units.

    Examples
    --------
    >>> format_bytes(3 * 2**30)
    '3.0 GiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} PiB"
