"""The trained model of a run folder; tests/classification/test_predict.py has those of graph classification."""

import numpy as np
import pytest
import torch
from commands import CLUSTER, CPU

from jbpool import load_run
from jbpool.errors import JBPoolError


def test_runs_of_node_clustering_are_loaded_too(tmp_path):
    config = CLUSTER.config("train.epochs=5")
    data = CLUSTER.task.load_data(config)
    CLUSTER.task.run(config, data, tmp_path / "r", CPU)
    model = load_run(str(tmp_path / "r"))
    cluster, confidence = model(data.graph, data.feat)
    with np.load(tmp_path / "r" / "assign.npz") as stored:
        assert cluster.tolist() == stored["cluster"][0].tolist()
        np.testing.assert_allclose(confidence, stored["confidence"][0], rtol=1e-5)
    weight = torch.ones(data.graph.num_edges)
    torch.nn.Sequential(model).train()                                  # part of a network that is trained
    for same in ((data.feat.to_dense().double(),), (data.feat, weight), (data.feat, weight.double())):
        assert torch.equal(model(data.graph, *same)[0], cluster)
    for inputs, words in [
        ((data.graph, data.feat, weight[1:]), "edge_weight has"),
        ((data.graph, data.feat, -weight), "not be negative"),
        ((data.graph, data.feat.to_dense() * float("nan")), "NaN or infinity"),
        ((None, data.feat), "pass a DGLGraph"),
        ((data.graph, data.feat.to_dense().numpy()), "feat: ndarray"),
        ((data.graph, None), "feat: NoneType"),
    ]:
        with pytest.raises(JBPoolError, match=words):
            model(*inputs)
    with pytest.raises(JBPoolError, match="feat: 3 columns"):
        model(data.graph, torch.rand(300, 3))
    with pytest.raises(JBPoolError, match=r"is not a run folder"):
        load_run(tmp_path)
    text = (tmp_path / "r" / "config.yaml").read_text()
    (tmp_path / "r" / "config.yaml").write_text(text.replace("task: node_cluster", "task: other"))
    with pytest.raises(JBPoolError, match=r"task is 'other', neither"):
        load_run(tmp_path / "r")
    (tmp_path / "r" / "config.yaml").write_text(text)
    (tmp_path / "r" / "model.pt").unlink()
    with pytest.raises(JBPoolError, match=r"has no model.pt: give a finished run"):
        load_run(tmp_path / "r")
