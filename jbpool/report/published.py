"""Published results: Table 2 of the paper, and others. Methods are named as in the configurations."""

from __future__ import annotations

DATASETS = ("cora", "citeseer", "pubmed", "dblp")

# method: "ACC deviation NMI deviation" for each dataset; - if the method is deterministic
_ROWS = {
    "sc": ".298 - .028 - | .217 - .014 - | .589 - .182 - | .458 - .023 -",
    "deepwalk": ".229 .020 .064 .024 | .193 .002 .004 .001 | .361 .001 .001 .000 | .266 .001 .001 .000",
    "node2vec": ".229 .025 .060 .029 | .194 .003 .004 .001 | .362 .001 .001 .000 | .272 .001 .001 .000",
    "netmf": ".389 - .251 - | .277 - .127 - | .448 - .058 - | .455 - .037 -",
    "gae": ".464 .062 .327 .051 | .381 .038 .162 .029 | .588 .071 .235 .044 | .416 .035 .111 .028",
    "vgae": ".572 .054 .437 .028 | .360 .038 .156 .034 | .610 .060 .245 .043 | .507 .047 .212 .021",
    "diffpool": ".472 .010 .306 .005 | .336 .007 .180 .008 | .418 .002 .084 .001 | .370 .042 .045 .043",
    "dmon": ".488 .063 .357 .042 | .364 .043 .196 .029 | .559 .042 .192 .048 | .590 .039 .334 .026",
    "mincut": ".534 .041 .406 .029 | .497 .049 .295 .029 | .572 .034 .208 .014 | .538 .033 .297 .024",
    "jb": ".457 .025 .351 .128 | .334 .019 .140 .024 | .564 .023 .223 .013 | .607 .008 .359 .008",
}


# method -> dataset -> (ACC, its deviation, NMI, its deviation)
CLUSTERING: dict[str, dict[str, tuple[float | None, ...]]] = {
    method: {
        name: tuple(None if number == "-" else float(number) for number in cell.split())
        for name, cell in zip(DATASETS, row.split("|"), strict=True)
    }
    for method, row in _ROWS.items()
}

# Graph classification: dataset -> source -> (mean, deviation if published). TU: GIN and DiffPool from Errica et al., "A
# Fair Comparison of Graph Neural Networks for Graph Classification" (ICLR 2020), accuracy; BN-Pool from Castellana and
# Bianchi, "BN-Pool: Bayesian Nonparametric Graph Pooling"; ogbg-molhiv: the OGB leaderboard's baselines, ROC-AUC; gcb:
# the page of the benchmark (github.com/FilippoMB/Benchmark_dataset_for_graph_classification).
CLASSIFICATION: dict[str, dict[str, tuple[float, float | None]]] = {
    "MUTAG": {"BN-Pool": (0.88, None)},
    "PROTEINS": {"GIN": (0.733, 0.040), "DiffPool": (0.737, 0.035), "BN-Pool": (0.75, None)},
    "NCI1": {"GIN": (0.800, 0.014), "DiffPool": (0.769, 0.019), "BN-Pool": (0.80, None)},
    "DD": {"GIN": (0.753, 0.029), "DiffPool": (0.750, 0.035), "BN-Pool": (0.80, None)},
    "ENZYMES": {"GIN": (0.596, 0.045), "DiffPool": (0.595, 0.056), "BN-Pool": (0.54, None)},
    "REDDIT-BINARY": {"GIN": (0.899, 0.019), "DiffPool": (0.891, 0.016), "BN-Pool": (0.91, None)},
    "ogbg-molhiv": {"GIN": (0.7558, 0.0140), "GCN": (0.7606, 0.0097), "BN-Pool": (0.77, None)},
    "gcb-hard-small": {"WL kernel": (0.731, None)},
    "gcb-easy-small": {"WL kernel": (1.0, None)},
    "gcb-hard": {"MinCutPool": (0.738, 0.019), "NDP": (0.726, None), "DiffPool": (0.699, None)},
}
