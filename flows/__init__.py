"""The Prefect flow and the command line of pileshuffle; the engine is `shuffle_tasks`, which knows nothing of Prefect.

`from flows import shuffle_dataset` gives the flow. Prefect takes seconds to import, so it is imported when the name is
first used, and the command line can start without it. In a notebook or script that imports prefect itself, import
`flows` first: its defaults (`flows.server`) must be set before prefect reads its settings.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flows.shuffle_dataset import shuffle_dataset as shuffle_dataset

__all__ = ["shuffle_dataset"]


class _FlowsPackage(ModuleType):
    """A package whose `shuffle_dataset` is the flow, before and after the module of the same name was imported."""

    @property
    def shuffle_dataset(self) -> Any:
        from flows.server import set_prefect_defaults

        set_prefect_defaults()
        return importlib.import_module("flows.shuffle_dataset").shuffle_dataset

    @shuffle_dataset.setter
    def shuffle_dataset(self, module: ModuleType) -> None:
        """Ignore the import system, which binds every submodule to its name in the package."""


sys.modules[__name__].__class__ = _FlowsPackage
