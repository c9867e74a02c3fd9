"""Damaged and oversized files: an error that names the file, before memory runs out or the process crashes."""

import gzip
import stat
import tracemalloc
import zipfile

import numpy as np
import pytest
import scipy.sparse

from jbpool.data import DataError, arrays, load_graphs, load_nodes
from jbpool.data.arrays import csr_from_arrays, extract, read_array, read_members

PLAIN = "0,1\n1,2\n2,0\n2,3\n"


def archive(path, members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def replace_bytes(path, old, new):
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))


class TestArchives:
    def test_a_damaged_stream(self, tmp_path):
        path = archive(tmp_path / "a.zip", {"x": "0123456789" * 99})
        content = bytearray(path.read_bytes())
        content[31] |= 0b110                                    # the type of the first deflate block
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a\.zip: member 'x' is damaged"):
            read_members(path, ["x"])

    @pytest.mark.parametrize(
        ("place", "value", "words"),
        [(10, 97, "member 'x' is damaged"), (6, 250, "a.zip: not a zip archive|member 'x' is damaged")],
    )
    def test_an_unknown_compression_or_version(self, tmp_path, place, value, words):
        path = archive(tmp_path / "a.zip", {"x": "0123456789" * 99})
        content = bytearray(path.read_bytes())
        content[content.index(b"PK\1\2") + place] = value
        path.write_bytes(content)
        with pytest.raises(DataError, match=words):
            read_members(path, ["x"])

    def test_a_bomb_is_refused_by_its_ratio_before_it_is_unpacked(self, tmp_path, monkeypatch):
        (tmp_path / "TU").mkdir()
        members = {f"S/S_{part}.txt": "1\n" * 8_000_000 for part in ("A", "graph_indicator", "graph_labels")}
        path = archive(tmp_path / "TU" / "S.zip", members)
        monkeypatch.setattr(zipfile.ZipFile, "open", lambda *args: pytest.fail("unpacked"))
        tracemalloc.start()
        with pytest.raises(DataError, match=r"S\.zip: its members unpack to 48,000,000 bytes, more than the limit"):
            load_graphs("S", root=tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10_000_000
        assert path.stat().st_size < 100_000

    def test_a_text_bomb(self, tmp_path):
        (tmp_path / "e.csv.gz").write_bytes(gzip.compress(b"0,1\n" * 8_000_000))
        with pytest.raises(DataError, match=r"e\.csv\.gz: unpacks to more than its size"):
            load_nodes("file", edges=tmp_path / "e.csv.gz")

    def test_as_many_node_labels_as_nodes(self, tmp_path, monkeypatch):
        """One-hot labels of N nodes with N classes are a matrix of N x N."""
        parts = {"A": ["1, 2"], "graph_indicator": [1] * 999, "graph_labels": [1], "node_labels": range(999)}
        for part, lines in parts.items():
            (tmp_path / f"S_{part}.txt").write_text("\n".join(map(str, lines)))
        monkeypatch.setattr(arrays, "available_memory", lambda: 2_000_000)
        with pytest.raises(DataError, match=r"S_node_labels\.txt: 999 different node labels .* needs 4 MB"):
            load_graphs("file", folder=tmp_path)


def link(name):
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.parametrize("name", ["../out.txt", "/abs.txt", "a/../../out.txt", "a\\..\\out.txt", "C:out.txt"])
def test_an_archive_cannot_reach_out_of_its_folder(tmp_path, name):
    path = archive(tmp_path / "a.zip", {"good.txt": "x", name: "x"})
    with pytest.raises(DataError, match="outside its folder"):
        extract(path, tmp_path / "in")
    assert not (tmp_path / "in").exists()


def test_an_archive_cannot_hold_links(tmp_path):
    with pytest.raises(DataError, match="link"):
        extract(archive(tmp_path / "a.zip", {link("inside"): "/etc/passwd"}), tmp_path / "in")


def test_bombs_are_refused(tmp_path):
    path = archive(tmp_path / "a.zip", {"big": b"0" * 10_000_000, "small": b"0"})
    assert path.stat().st_size < 20_000
    for call in (lambda: extract(path, tmp_path / "in", 1_000_000), lambda: read_members(path, ["big"], 1_000_000)):
        with pytest.raises(DataError, match="more than the limit"):
            call()


def test_the_limit_is_for_all_members_together(tmp_path):
    path = archive(tmp_path / "a.zip", {name: b"0" * 600 for name in "ab"})
    for call in (lambda: extract(path, tmp_path / "in", 1000), lambda: read_members(path, ["a", "b"], 1000)):
        with pytest.raises(DataError, match="more than the limit"):
            call()


def test_plain_archives_are_unpacked(tmp_path):
    extract(archive(tmp_path / "a.zip", {"a/b.txt": "x", "c.txt": "y"}), tmp_path / "in")
    assert (tmp_path / "in" / "a" / "b.txt").read_text() == "x"


def test_what_is_no_archive_is_reported(tmp_path):
    (tmp_path / "a.zip").write_text("<html>not found</html>")
    with pytest.raises(DataError, match="not a zip archive"):
        read_members(tmp_path / "a.zip", ["x"])


def test_memory_of_a_container(tmp_path, monkeypatch):
    """The cache of files counts as used, but is freed when memory is needed."""
    monkeypatch.setattr(arrays, "_CGROUP", tmp_path)
    without = arrays.available_memory()
    for name, content in (("max", 1000), ("current", 900), ("stat", "anon 300\nfile 600\ninactive_file 500\n")):
        (tmp_path / f"memory.{name}").write_text(f"{content}\n")
    assert arrays.available_memory() == 600
    (tmp_path / "memory.max").write_text("max\n")
    assert arrays.available_memory() > 1000
    assert without > 1000


class TestArrays:
    def load(self, tmp_path, name):
        (tmp_path / "e.csv").write_text(PLAIN)
        return load_nodes("file", edges=tmp_path / "e.csv", features=tmp_path / name)

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (b"(4, 2)", b"(4, 2("),
            (b"'shape'", b"'sh\0pe'"),
            (b"(4, 2)", b"(-4,2)"),
            (b"(4, 2)", b"(9, 9)"),
            (b"'<f8'", b"'<O8'"),
            (b"{'descr", b"[[[[[[["),
            (b"\x93NUMPY\x01", b"\x93NUMPY\x09"),
        ],
    )
    def test_a_damaged_header(self, tmp_path, old, new):
        np.save(tmp_path / "x.npy", np.ones((4, 2)))
        np.savez(tmp_path / "x.npz", feat=np.ones((4, 2)))
        replace_bytes(tmp_path / "x.npy", old, new)
        archive(tmp_path / "x.npz", {"feat.npy": (tmp_path / "x.npy").read_bytes()})
        for name in ("x.npy", "x.npz"):
            with pytest.raises(DataError, match=name):
                self.load(tmp_path, name)

    def test_a_shape_beyond_the_file_allocates_nothing(self, tmp_path):
        np.save(tmp_path / "x.npy", np.ones((4, 2)))
        replace_bytes(tmp_path / "x.npy", b"(4, 2), }" + b" " * 8, b"(4, 99999999999)}")
        with pytest.raises(DataError, match="needs more than its 192 bytes"):
            self.load(tmp_path, "x.npy")

    def test_a_damaged_stream(self, tmp_path):
        np.savez_compressed(tmp_path / "x.npz", feat=np.ones((4, 2)))
        content = bytearray((tmp_path / "x.npz").read_bytes())
        content[60:70] = b"\xff" * 10
        (tmp_path / "x.npz").write_bytes(content)
        with pytest.raises(DataError, match=r"x\.npz: member 'feat.npy' is damaged"):
            self.load(tmp_path, "x.npz")

    def test_available_memory_is_a_limit(self, tmp_path, monkeypatch):
        np.savez_compressed(tmp_path / "x.npz", feat=np.zeros((4, 1_000_000)))
        monkeypatch.setattr(arrays, "available_memory", lambda: 10_000_000)
        with pytest.raises(DataError, match=r"x\.npz: the array needs 64 MB of memory, but only 10 MB"):
            self.load(tmp_path, "x.npz")

    def test_a_sparse_matrix_in_half_precision(self, tmp_path):
        stored = {"data": np.ones(2, np.float16), "indices": np.array([0, 1]), "indptr": np.array([0, 1, 2])}
        assert csr_from_arrays(tmp_path / "x.npz", {**stored, "shape": np.array([2, 2])}).tocoo().sum() == 2

    @pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
    def test_sparse_matrices_of_every_format(self, tmp_path, kind):
        matrix = scipy.sparse.random(4, 6, 0.5, random_state=0)
        scipy.sparse.save_npz(tmp_path / "x.npz", matrix.asformat(kind))
        assert (read_array(tmp_path / "x.npz", "feat") != matrix.tocsr()).nnz == 0

    @pytest.mark.parametrize(
        "change",
        [
            {"indices": np.array([0, 9])},
            {"indices": np.array([0, -1])},
            {"indices": np.array([0.0, 1.0])},
            {"indptr": np.array([0, 1])},
            {"indptr": np.array([0, 5, 2])},
            {"indptr": np.array([0, 5, -2])},                   # scipy's own check accepts it
            {"shape": np.array([10**12, 2])},
            {"shape": np.array([-2, 2])},
            {"format": np.array("what")},
            {"data": np.ones((2, 2))},
        ],
    )
    def test_sparse_indices_are_checked(self, tmp_path, change):
        arrays = {"data": np.ones(2), "indices": np.array([0, 1])}
        arrays |= {"indptr": np.array([0, 1, 2]), "shape": np.array([2, 2])}
        assert csr_from_arrays(tmp_path / "x.npz", arrays).nnz == 2
        with pytest.raises(DataError, match=r"x\.npz"):
            csr_from_arrays(tmp_path / "x.npz", arrays | change)


def test_a_damaged_gzip_file(tmp_path):
    (tmp_path / "e.csv.gz").write_bytes(gzip.compress(PLAIN.encode() * 100)[:-20])
    with pytest.raises(DataError, match=r"e\.csv\.gz"):
        load_nodes("file", edges=tmp_path / "e.csv.gz")
