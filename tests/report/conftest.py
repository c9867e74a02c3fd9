"""One browser, and one run of each task with names that would break a careless page."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from browser import HOSTILE, NODES, Browser
from commands import CASES, CLASSIFY, CLUSTER, run_task

from jbpool.report import layout


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module", autouse=True)
def _layout_as_in_use(full_layout):
    with mock.patch.multiple(layout, **full_layout):
        yield


@pytest.fixture(scope="session")
def folders(tmp_path_factory, full_layout):
    """A run of each task, with names that would break a careless page."""
    made = {}
    for name, case in CASES.items():
        folder = tmp_path_factory.mktemp(name)
        if case is CLUSTER:
            config = case.config("train.epochs=30", "train.seeds=[0,1]")
            data = case.task.load_data(config)
            ids = np.array([f"{HOSTILE} {i}" for i in range(NODES)], dtype=object)
            ids[7] = "node seven"
            data = replace(data, ids=ids)
        else:
            config = case.config()
            data = case.task.load_data(config)
        data = replace(data, name=HOSTILE, class_names=[f"{HOSTILE} {i}" for i in range(data.num_classes)])
        out = run_task(case, config, folder, data, **({"folds": [0]} if case is CLASSIFY else {"baselines": True}))
        with mock.patch.multiple(layout, **full_layout):
            made[name] = out.write_report()
    return made
