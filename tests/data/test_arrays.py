"""Arrays, matrices and archives: every form is read, none with objects, indices are checked."""

import zipfile

import numpy as np
import pytest
import scipy.sparse

from jbpool.data import DataError
from jbpool.data.arrays import csr_from_arrays, extract, open_npy, read_array, read_arrays, read_members

ARRAY = np.arange(8.0).reshape(4, 2)


def test_an_array_of_every_kind_of_file(tmp_path):
    np.save(tmp_path / "x.npy", ARRAY)
    np.savez(tmp_path / "only.npz", x=ARRAY)
    np.savez_compressed(tmp_path / "several.npz", feat=ARRAY, label=np.arange(4))
    for name in ("x.npy", "only.npz", "several.npz"):
        np.testing.assert_array_equal(read_array(tmp_path / name, "feat"), ARRAY)
    np.testing.assert_array_equal(open_npy(tmp_path / "x.npy"), ARRAY)
    assert list(read_arrays(tmp_path / "several.npz")) == ["feat", "label"]
    with pytest.raises(DataError, match="name the one"):
        read_array(tmp_path / "several.npz", "x")


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
def test_sparse_matrices_of_every_format(tmp_path, kind):
    matrix = scipy.sparse.random(4, 6, 0.5, random_state=0)
    scipy.sparse.save_npz(tmp_path / "x.npz", matrix.asformat(kind))
    assert (read_array(tmp_path / "x.npz", "feat") != matrix.tocsr()).nnz == 0


@pytest.mark.parametrize("read", [lambda path: read_array(path, "x"), open_npy, read_arrays])
def test_objects_and_what_is_no_array_are_refused(tmp_path, read):
    np.savez(tmp_path / "objects.npz", x=np.array([print], dtype=object))
    (tmp_path / "text.npy").write_text("0,1\n")
    for name in ("objects.npz", "text.npy", "missing.npy"):
        with pytest.raises(DataError, match=name):
            read(tmp_path / name)


@pytest.mark.parametrize(
    "change",
    [
        {"indices": np.array([0, 9])}, {"indices": np.array([0, -1])}, {"indptr": np.array([0, 1])},
        {"indptr": np.array([0, 5, 2])}, {"indptr": np.array([0, 5, -2])}, {"shape": np.array([-2, 2])},
        {"data": np.ones((2, 2))},
    ],
)  # fmt: skip
def test_sparse_indices_are_checked(tmp_path, change):
    arrays = {"data": np.ones(2, np.float16), "indices": np.array([0, 1])}
    arrays |= {"indptr": np.array([0, 1, 2]), "shape": np.array([2, 2])}
    assert csr_from_arrays(tmp_path / "x.npz", arrays).sum() == 2
    with pytest.raises(DataError, match="not a sparse matrix"):
        csr_from_arrays(tmp_path / "x.npz", arrays | change)


def test_an_archive_is_unpacked_into_its_folder(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        for name in ("a/b.txt", "../out.txt", "/abs.txt"):
            file.writestr(name, name)
    assert read_members(tmp_path / "a.zip", ["a/b.txt"]) == {"a/b.txt": b"a/b.txt"}
    extract(tmp_path / "a.zip", tmp_path / "in")
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.txt")} == {
        "in/a/b.txt", "in/out.txt", "in/abs.txt"
    }  # fmt: skip
    (tmp_path / "b.zip").write_bytes((tmp_path / "a.zip").read_bytes()[:-40])
    for path, name in ((tmp_path / "a.zip", "none"), (tmp_path / "b.zip", "a/b.txt")):
        with pytest.raises(DataError, match=path.name):
            read_members(path, [name])
