"""A task as one object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from jbpool.engine.run_folder import RunFolder


@dataclass(frozen=True)
class Task:
    """What the configuration loader and the command line need to know about a task."""

    name: str                                       # as in task: of a configuration, and the folder under configs/
    schema: type                                    # dataclass of a configuration, with its sections
    default: str                                    # the configuration that runs without --cfg
    predicted: str                                  # the file that --predict writes
    problems: Callable[[Any], Iterator[tuple[str, str]]]    # key and problem of invalid settings
    unused: Callable[[Any], list[str]]              # settings that were changed although nothing reads them
    load_data: Callable[[Any], Any]                 # configuration -> data
    run: Callable[..., RunFolder]                   # (configuration, data, folder, device, resume=False, ...)
    predict: Callable[[Path, Any, Path, torch.device], None]    # (folder of a run, new configuration, file to write)
    exclusive: Mapping[str, str] = field(default_factory=dict)  # --set of the key removes this other key from a file
