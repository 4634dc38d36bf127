"""Which dimension is the rows, and which arrays have it. Pure: names and shapes in, names out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shuffle_tasks.errors import RequestError


@dataclass(frozen=True, slots=True)
class NamedArray:
    """Path, shape and dimension names (None = unnamed) of one array."""

    path: str
    shape: tuple[int, ...]
    dims: tuple[str, ...] | None

    @property
    def is_index(self) -> bool:
        """Whether it is the index of its own dimension (one-dimensional, and named as its dimension)."""
        return self.dims is not None and self.dims == (self.path.rsplit("/", 1)[-1],)


@dataclass(frozen=True, slots=True)
class RowChoice:
    """The row dimension: its name (None = axis 0 of unnamed arrays), its length, and who has it."""

    dim: str | None
    n: int
    rows: tuple[str, ...]
    copies: tuple[str, ...]


def choose_rows(arrays: Sequence[NamedArray], row_dim: str | None, *, source: str) -> RowChoice:
    """Return the row dimension and the arrays that have it first.

    The candidates are the first dimensions of the arrays that are not an index; unnamed arrays have their rows on axis
    0.

    Raises
    ------
    RequestError
        If there is no candidate, or several, or the arrays that have the dimension differ in length.
    """
    dim = row_dim if row_dim is not None else _only_candidate(arrays, source)
    named = [a for a in arrays if a.dims is not None]
    if row_dim is not None and not any(row_dim in (a.dims or ()) for a in named):
        known = sorted({d for a in named for d in a.dims or ()})
        raise RequestError(f"the source {source} has no dimension {row_dim!r}: its dimensions are {known or 'unnamed'}")
    rows = [a for a in named if a.dims and a.dims[0] == dim] if dim is not None else []
    _refuse_later_axes(named, dim, source)
    rows += _unnamed_rows(arrays, rows)
    lengths = {a.path or "(root)": a.shape[0] for a in rows}
    if not lengths:
        raise RequestError(f"the source {source} has no array with rows along {dim!r}")
    if len(set(lengths.values())) > 1:
        raise RequestError(f"the arrays of {source} differ in length along the rows: {lengths}")
    order = {a.path for a in rows}
    return RowChoice(
        dim,
        rows[0].shape[0],
        tuple(a.path for a in arrays if a.path in order),
        tuple(a.path for a in arrays if a.path not in order),
    )


def _only_candidate(arrays: Sequence[NamedArray], source: str) -> str | None:
    with_rows = [a for a in arrays if a.shape]
    named = [a for a in with_rows if a.dims and not a.is_index] or [a for a in with_rows if a.dims]
    found = list(dict.fromkeys(a.dims[0] for a in named if a.dims))
    if len(found) > 1:
        raise RequestError(
            f"the source {source} has several candidates for the row dimension: {found}; choose one with --row-dim"
        )
    if not found and not with_rows:
        raise RequestError(f"the source {source} has no row dimension: it has no array with at least one dimension")
    return found[0] if found else None


def _refuse_later_axes(named: Sequence[NamedArray], dim: str | None, source: str) -> None:
    for array in named:
        if dim in (array.dims or ())[1:]:
            raise RequestError(
                f"array {array.path!r} of {source} has the row dimension {dim!r} at axis "
                f"{(array.dims or ()).index(str(dim))}: transpose it so that rows come first"
            )


def _unnamed_rows(arrays: Sequence[NamedArray], rows: Sequence[NamedArray]) -> list[NamedArray]:
    """Return the unnamed arrays with rows on axis 0: all of the top level, and deeper ones of the same length."""
    unnamed = [a for a in arrays if a.dims is None and a.shape]
    if rows:
        return [a for a in unnamed if a.shape[0] == rows[0].shape[0]]
    top = [a for a in unnamed if "/" not in a.path]
    return top + [a for a in unnamed if "/" in a.path and top and a.shape[0] == top[0].shape[0]]
