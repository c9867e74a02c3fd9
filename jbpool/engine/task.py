"""A task as one object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jbpool.engine.run_folder import RunFolder


@dataclass(frozen=True)
class Task:
    """What the configuration loader and the command line need to know about a task."""

    name: str                                       # as in ``task:`` of a configuration, and the folder under configs/
    schema: type                                    # dataclass of a configuration
    default: str                                    # the configuration that runs without --cfg
    problems: Callable[[Any], Iterator[tuple[str, str]]]    # key and problem of invalid settings
    load_data: Callable[[Any], Any]                 # configuration -> data
    run: Callable[..., RunFolder]                   # (configuration, data, folder, device, resume=False, ...)
    dataset_options: Callable[[Any], dict[str, Any]]    # configuration -> options of its dataset, with their defaults
    unused: Callable[[Any], list[str]]              # settings that were changed although nothing reads them
    one_process_only: Callable[[Any], str | None] = lambda config: None     # why several processes cannot share a run
    exclusive: Mapping[str, str] = field(default_factory=dict)   # --set of the key removes this other key from a file


def wrong_number_of_sizes(
    cluster_sizes: Sequence[float] | None, clusters: Sequence[int | str | None]
) -> Iterator[tuple[str, str]]:
    """Yield key and problem of ``cluster_sizes`` that do not fit the numbers of clusters, where known."""
    for count in clusters:
        if cluster_sizes is not None and isinstance(count, int) and count != len(cluster_sizes):
            given = f"method.cluster_sizes has {len(cluster_sizes)} entries"
            yield "method.cluster_sizes", f"{given} for {count} clusters: give one per cluster"
            return
