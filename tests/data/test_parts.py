"""Files that several processes read in part give what one process reads."""

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from commands import run_ranks

SCRIPT = Path(__file__).with_name("read_in_part.py")


def edges(count=200, nodes=40, seed=0):
    """With repeated edges, both directions of some, and self loops."""
    return np.random.default_rng(seed).integers(0, nodes, (count, 2))


def lines(pairs, *columns, separator=",", end="\n"):
    return "".join(separator.join(map(str, row)) + end for row in zip(*np.transpose(pairs), *columns, strict=True))


def named(pairs, text="n{}".format):
    return np.array([[text(number) for number in pair] for pair in pairs], dtype=object)


def write_cases(folder: Path):
    """One folder per case: edges and what belongs to them."""
    def place(case, name):
        (folder / case).mkdir(parents=True, exist_ok=True)
        return folder / case / name

    pairs, weight = edges(), np.random.default_rng(1).integers(0, 5, 200) / 4
    apart = 1000 * pairs - 7
    both = np.concatenate([pairs, pairs[:, ::-1]])
    np.save(place("int32", "edges.npy"), pairs.astype(np.int32))
    np.save(place("int64", "edges.npy"), pairs)
    np.save(place("unseen numbers", "edges.npy"), 3 * pairs + 2)
    np.save(place("both directions", "edges.npy"), both)
    np.save(place("one line", "edges.npy"), pairs[:1])
    pieces = [(5 * first + step, 5 * first + step + 1) for first in range(12) for step in (0, 1, 3)]
    np.save(place("in pieces", "edges.npy"), np.array(pieces, order="F"))
    np.savez(place("npz", "edges.npz"), source=pairs[:, 0], target=pairs[:, 1], weight=weight)
    np.savez_compressed(place("packed npz", "edges.npz"), source=apart[:, 0] + 7, target=apart[:, 1] + 7)
    place("numbers far apart", "edges.txt").write_text(lines(apart, separator=" "))
    place("names", "edges.csv").write_text(lines(named(pairs), weight))
    place("header", "edges.csv").write_text("# made\nsource,kind,target,weight\n" + lines(
        np.stack([named(pairs)[:, 0], ["x"] * 200, named(pairs)[:, 1]], axis=1), weight))
    place("both directions with weights", "edges.tsv").write_text(
        lines(named(both), np.tile(weight, 2), separator="\t", end="\r\n"))
    place("odd first line", "edges.csv").write_text("woman,event\n" + lines(named(pairs)))
    people = named(pairs)
    people[:, 1] = [f"event {number}" for number in pairs[:, 1]]
    place("bipartite", "edges.csv").write_text("who,what,weight\n" + lines(people, np.arange(200) % 7))
    place("a name in the last line", "edges.csv").write_text(lines(pairs) + "x,7\n")
    similar = named(pairs, lambda number: ["Ann", "ann", "NaN", f"n{number}"][min(number, 3)])
    place("similar names", "edges.csv").write_text(lines(similar))
    place("odd numbers", "edges.csv").write_text(lines(pairs) + "007,7\n")
    place("few lines", "edges.csv").write_text("id,to\na,b\nb,c\n")
    place("one line of text", "edges.txt").write_text("# a\n\n\n7 8")
    place("comments", "edges.txt").write_text("# c\n" * 300 + lines(pairs, separator=" ") + "% d\n" * 300)
    with gzip.open(place("gzip", "edges.csv.gz"), "wt") as file:
        file.write(lines(named(pairs), weight))
    place("columns called otherwise", "edges.csv").write_text("from_city,to_city,km\n" + lines(named(pairs), weight))
    frame = pd.DataFrame({"source": pairs[:, 0], "target": pairs[:, 1], "weight": weight})
    frame.to_parquet(place("parquet", "edges.parquet"), row_group_size=33)
    frame.astype({"source": str, "target": str}).to_parquet(place("names in parquet", "edges.parquet"))
    write_features(place, pairs)
    many = edges(20_000, 500)
    np.save(place("many in an array", "edges.npy"), many)
    np.savez(place("many in a npz", "edges.npz"), source=many[:, 0], target=many[:, 1])
    place("many in text", "edges.csv").write_text(lines(many))
    pd.DataFrame(many, columns=["source", "target"]).to_parquet(place("many in parquet", "edges.parquet"))


def write_features(place, pairs):
    """Features and labels beside the edges: arrays, and tables in another order, with gaps and unknown nodes."""
    random = np.random.default_rng(2)
    values, order = random.random((43, 3)), random.permutation(43)
    for case, options in (("arrays", {}), ("scaled arrays", {"scale": "standard"})):
        np.save(place(case, "edges.npy"), pairs)
        np.save(place(case, "features.npy"), values)
        np.save(place(case, "labels.npy"), np.arange(43) % 4 - 1)
        place(case, "options.json").write_text(json.dumps(options))
    np.save(place("sparse features", "edges.npy"), pairs)
    scipy.sparse.save_npz(place("sparse features", "features.npz"), scipy.sparse.csr_matrix(np.floor(4 * values)))
    place("sparse features", "labels.csv").write_text("".join(f"{node},{'ab'[node % 2]}\n" for node in order[:30]))
    names, words = [f"n{number}" for number in order], np.array(["red", "green", "blue"])[order % 3]
    table = pd.DataFrame({"id": names, "x": values[:, 0], "colour": words, "y": values[:, 1]})
    place("tables", "edges.csv").write_text(lines(named(pairs)))
    table.to_csv(place("tables", "features.csv"), index=False)
    groups = "".join(f"{name},g{name[-1]}\n" for name in names[:25])
    place("tables", "labels.csv").write_text(f"who,group\n{groups}z,g1\n")
    place("gaps", "edges.csv").write_text(lines(named(pairs)))
    holes = table.iloc[:40].mask(random.random((40, 4)) < 0.1).assign(id=names[:40])
    holes.to_parquet(place("gaps", "features.parquet"))
    place("gaps", "options.json").write_text('{"missing": "mean", "scale": "standard"}')


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Number of processes -> what each of them has read."""
    folder, found = tmp_path_factory.mktemp("files"), {}
    write_cases(folder)
    for processes in (1, 2, 3, 4):
        out = tmp_path_factory.mktemp(f"by-{processes}")
        run_ranks(SCRIPT, folder, out, cwd=out, processes=processes)
        found[processes] = [json.loads((out / f"{place}.json").read_text()) for place in range(processes)]
    return found


@pytest.mark.parametrize("processes", [2, 3, 4])
def test_files_read_in_part_give_the_same(read, processes):
    (alone,) = read[1]
    assert len(alone) == 33
    for case, expected in alone.items():
        parts = [seen[case] for seen in read[processes]]
        assert [part["shared"] for part in parts] == [expected["shared"]] * processes, case
        assert [part["types"] for part in parts] == [expected["types"]] * processes, case
        assert parts[0]["said"] == expected["said"], case
        assert not any(part["said"] for part in parts[1:]), case
        for name, rows in expected["rows"].items():
            values = [part["rows"][name] for part in parts]
            joined = None if None in values else [value for value in values for value in value]
            assert joined == rows, (case, name)
        if len(expected["rows"]["ids"]) > 4 * processes:
            assert all(part["rows"]["ids"] for part in parts), case


@pytest.mark.parametrize("processes", [2, 3, 4])
def test_no_process_holds_all_edges(read, processes):
    """The longest array of any function that reads is about the share of a process."""
    for case in ("many in an array", "many in a npz", "many in text", "many in parquet"):
        for kind, alone in read[1][0][case]["longest"].items():
            assert max(seen[case]["longest"][kind] for seen in read[processes]) <= 1.1 / processes * alone, (case, kind)
