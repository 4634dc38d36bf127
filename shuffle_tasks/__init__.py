"""pileshuffle's library: an exactly uniform shuffle of Zarr datasets larger than memory.

>>> from shuffle_tasks import ShuffleConfig, run_shuffle
>>> report = run_shuffle(ShuffleConfig(source="in.zarr", target="out.zarr", seed=1, memory="2GiB"))  # doctest: +SKIP

The map of the package is in ARCHITECTURE.md beside this file.
"""

from shuffle_tasks.certificate import VerifyReport
from shuffle_tasks.errors import CertificateError, RequestError, RunError, ShuffleError, StorageError
from shuffle_tasks.planning.config import ShuffleConfig
from shuffle_tasks.planning.plan import Plan
from shuffle_tasks.preview import plan_shuffle
from shuffle_tasks.provenance import read_provenance
from shuffle_tasks.randomness import Permutation
from shuffle_tasks.report import ShuffleReport
from shuffle_tasks.run import STAGES, ShuffleRun, is_complete, run_shuffle
from shuffle_tasks.verify import verify

__all__ = [
    "STAGES",
    "CertificateError",
    "Permutation",
    "Plan",
    "RequestError",
    "RunError",
    "ShuffleConfig",
    "ShuffleError",
    "ShuffleReport",
    "ShuffleRun",
    "StorageError",
    "VerifyReport",
    "is_complete",
    "plan_shuffle",
    "read_provenance",
    "run_shuffle",
    "verify",
]
