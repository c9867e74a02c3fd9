"""The clusters of every seed: the rows of each process, and the files that hold those of all."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from jbpool.engine.run_folder import RunFolder, write_assign_csv
from jbpool.processes import RowShares, barrier, rank

JOINED = 10**8          # nodes above which every process leaves its part of the clusters as a file


def _part_name(place: int | str, count: int | str) -> str:
    return f"assign-{place:0>5}-of-{count:0>5}.npz"


class Assignments:
    """Cluster and confidence of the nodes of this process, for every seed of a run."""

    def __init__(self, out: RunFolder, shares: RowShares, ids: np.ndarray):
        self.out, self.shares, self.ids = out, shares, ids
        self.clusters: dict[int, Tensor] = {}           # seed -> (n,)
        self.confidence: dict[int, Tensor] = {}
        self.joined: dict[str, list[int]] = {"clusters": [], "confidence": []}      # seeds that the first process has
        out.own |= {"clusters": {}, "confidence": {}}   # seed -> (N,), in the first process

    def take_rows(self) -> None:
        """Take the rows of this process from what was finished before, maybe by another number of processes."""
        start, stop = self.shares.start, self.shares.stop
        for kind, rows in (("clusters", self.clusters), ("confidence", self.confidence)):
            for seed, whole in self.out.own[kind].items():
                rows.setdefault(seed, whole[start:stop])
            self.joined[kind] += [seed for seed in self.out.own[kind] if seed not in self.joined[kind]]
            if rank() > 0:
                self.out.own[kind] = {}
        bounds = self.out.details.get("rows_of_parts")
        if self.clusters or bounds is None:
            return
        found: list[tuple[np.ndarray, ...]] = []
        for place, (first, last) in enumerate(pairwise(bounds)):
            if first < stop and last > start:
                with np.load(self.out.path / _part_name(place, len(bounds) - 1)) as stored:
                    here = slice(max(start - first, 0), stop - first)
                    found.append((stored["seeds"], stored["cluster"][:, here], stored["confidence"][:, here]))
        for number, seed in enumerate(found[0][0].tolist() if found else []):
            self.clusters[seed] = torch.from_numpy(np.concatenate([cluster[number] for _, cluster, _ in found]))
            self.confidence[seed] = torch.from_numpy(np.concatenate([trust[number] for *_, trust in found]))

    def save(self, best: int) -> None:
        """Write the clusters of every seed, and a table of those of the best one, unless there are too many rows."""
        if self.shares.num_rows > JOINED:
            self._save_parts()
        else:
            self._join(best)

    def _save_parts(self) -> None:
        """Write the rows of each process to a file of its own."""
        name = _part_name(self.shares.place, self.shares.processes)
        clusters, confidence = list(self.clusters.values()), list(self.confidence.values())
        self.out.save_assign(self.ids, list(self.clusters), clusters, confidence, name)
        self.out.details["rows_of_parts"] = self.shares.bounds
        barrier()                                               # others may still read those of another number
        if rank() == 0:
            for path in self.out.path.glob(_part_name("*", "*")):
                if not path.match(_part_name("*", self.shares.processes)):
                    path.unlink()

    def _join(self, best: int) -> None:
        """Collect the clusters in the first process, which writes them."""
        whole = self.out.own
        for kind, mine in (("clusters", self.clusters), ("confidence", self.confidence)):
            for seed in [seed for seed in mine if seed not in self.joined[kind]]:
                parts = self.shares.to_first(mine[seed])
                whole[kind] |= {seed: torch.cat(parts)} if parts else {}
                self.joined[kind].append(seed)
        ids = self.shares.to_first(self.ids)
        if ids:
            seeds, every = list(whole["clusters"]), np.concatenate(ids)
            clusters, confidence = ([whole[kind][seed] for seed in seeds] for kind in ("clusters", "confidence"))
            self.out.save_assign(every, seeds, clusters, confidence)
            write_assign_csv(self.out.path / "assign.csv", every, whole["clusters"][best], whole["confidence"][best])
