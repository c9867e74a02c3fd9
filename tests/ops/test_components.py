"""Connected components, beside those of networkx; divided rows are in tests/clustering/test_several_processes.py."""

import networkx
import pytest

from jbpool import Graph
from jbpool.ops.components import component_sizes, components


@pytest.mark.parametrize("seed", range(20))
def test_components_are_those_of_networkx(seed):
    drawn = networkx.gnm_random_graph(1 + 2 * seed, 3 * seed // 2, seed=seed)
    expected = [min(part) for node in drawn for part in networkx.connected_components(drawn) if node in part]
    graph = Graph.from_networkx(drawn)
    assert components(graph).tolist() == expected
    assert sorted(component_sizes(graph).tolist()) == sorted(map(len, networkx.connected_components(drawn)))
