"""The child process that reads a file of ``dgl.save_graphs``: ``python -c <this text> FILE ARRAYS MEMORY``.

DGL's C++ reader trusts the file: a damaged one can crash the process. This program therefore runs on its own, with
limited memory, and writes plain arrays to the ``.npz`` file ARRAYS. It imports nothing of jbpool. User errors are
written to standard error as one line, with exit code 3.
"""

import sys

import dgl
import numpy as np
import torch

FRAMES = (("ndata", "feat"), ("ndata", "label"), ("edata", "weight"), ("edata", "feat"))


def limit_memory(allowance: int) -> None:
    """Allow this many bytes beyond the current size of the process, and no core file, if the system supports it."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with open("/proc/self/statm") as file:
            limit = int(file.read().split()[0]) * resource.getpagesize() + allowance
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    except (ImportError, OSError, ValueError):
        pass                                    # not Linux, or a lower limit is already set


def plain(tensor: torch.Tensor) -> np.ndarray:
    """A tensor as an array; numpy has no bfloat16."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def pack(graphs: list, labels: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """All graphs in a few arrays: sizes, edges, the frames in use, and the labels of graphs."""
    if not graphs or not all(graph.is_homogeneous and graph.num_nodes() for graph in graphs):
        raise ValueError("homogeneous graphs with at least one node each are expected")
    ends = [graph.edges() for graph in graphs]
    arrays = {
        "sizes": np.array([graph.num_nodes() for graph in graphs]),
        "num_edges": np.array([graph.num_edges() for graph in graphs]),
        "source": plain(torch.cat([source.long() for source, _ in ends])),
        "target": plain(torch.cat([target.long() for _, target in ends])),
    }
    for frame, key in FRAMES:
        values = [getattr(graph, frame).get(key) for graph in graphs]
        present = [value for value in values if value is not None]
        if present and len(present) < len(values):
            lacking = next(place for place, value in enumerate(values) if value is None)
            raise ValueError(f"graph {lacking} has no {frame} {key!r}, others do")
        if len({(value.dtype, value.shape[1:]) for value in present}) > 1:
            raise ValueError(f"{frame} {key!r} differs in type or shape between graphs")
        if present:
            arrays[f"{frame} {key}"] = plain(torch.cat(present))
    used = {f"{frame} {key}" for frame, key in FRAMES}
    names = {f"{frame} {key}" for graph in graphs for frame in ("ndata", "edata") for key in getattr(graph, frame)}
    arrays["unused"] = np.array(sorted(names - used), dtype=str)
    arrays.update({f"label {key}": plain(value) for key, value in labels.items()})
    return arrays


def main() -> None:
    path, target, allowance = sys.argv[1:]
    limit_memory(int(allowance))
    try:
        arrays = pack(*dgl.load_graphs(path))
    except Exception as error:                  # DGL raises several kinds of errors
        lines = str(error).splitlines() or [type(error).__name__]
        print(lines[0] if isinstance(error, ValueError) else lines[-1], file=sys.stderr)
        sys.exit(3)
    np.savez(target, **arrays)                  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
