"""Whole objects of a local directory: read, put atomically, delete; no other module touches their bytes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from shuffle_tasks.errors import StorageError


@dataclass(frozen=True, slots=True)
class LocalObjects:
    """The objects below one directory; keys are relative POSIX paths.

    A put writes beside the object and renames, so that a reader sees the old object or the new one, never a part, and
    two writers of the same bytes do not disturb one another.
    """

    root: str

    def path(self, key: str) -> str:
        """Return the path of an object."""
        return f"{self.root}/{key}" if key else self.root

    def get(self, key: str) -> bytes | None:
        """Return an object, or None if there is none."""
        try:
            with open(self.path(key), "rb", buffering=0) as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def get_range(self, key: str, offset: int, length: int) -> bytes | None:
        """Return up to `length` bytes of an object from `offset` (negative: from its end), None if it is absent."""
        try:
            with open(self.path(key), "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size + offset) if offset < 0 else min(offset, size))
                return file.read(length)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def put(self, key: str, *parts: Any) -> int:
        """Write an object atomically, making its directories, and return its bytes.

        Its content is the given buffers, one behind the other.
        """
        path = self.path(key)
        partial = f"{path}.{uuid.uuid4().hex}.partial"
        try:
            written = self._write(partial, parts)
            os.replace(partial, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(partial)
            raise
        return written

    @staticmethod
    def _write(path: str, parts: Iterable[Any]) -> int:
        try:
            file = open(path, "wb", buffering=0)  # noqa: SIM115 - opened again after its directory is made
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            file = open(path, "wb", buffering=0)  # noqa: SIM115
        with file:
            for part in parts:
                rest = memoryview(part).cast("B")
                while rest:
                    rest = rest[file.write(rest) :]
            return file.tell()

    def exists(self, key: str) -> bool:
        """Tell whether an object is there."""
        return os.path.isfile(self.path(key))

    def size(self, key: str) -> int:
        """Return the bytes of an object, 0 if there is none."""
        try:
            return os.stat(self.path(key)).st_size
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def delete(self, key: str) -> None:
        """Remove an object if it is there."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(self.path(key))

    def delete_tree(self, key: str = "") -> None:
        """Remove a directory and all below it, if it is there."""
        shutil.rmtree(self.path(key), ignore_errors=False) if os.path.isdir(self.path(key)) else None

    def get_json(self, key: str) -> Any:
        """Return a JSON object, or None if there is none.

        Raises
        ------
        StorageError
            If the object is not JSON.
        """
        data = self.get(key)
        try:
            return None if data is None else json.loads(data)
        except ValueError as error:
            raise StorageError(f"{self.path(key)} is not valid JSON: {error}") from error

    def put_json(self, key: str, value: Any) -> None:
        """Write a JSON object atomically."""
        self.put(key, json.dumps(value, indent=1).encode())

    def child(self, key: str) -> LocalObjects:
        """Return the objects below one of the directories."""
        return LocalObjects(self.path(key))

    def walk_sizes(self, key: str = "") -> Iterator[int]:
        """Yield the size of every object below `key`; for estimates only, never for correctness."""
        for folder, _, names in os.walk(self.path(key)):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    yield os.stat(os.path.join(folder, name)).st_size

    def delete_empty_folder(self) -> None:
        """Remove the directory itself if nothing is in it."""
        with contextlib.suppress(OSError):
            os.rmdir(self.root)
