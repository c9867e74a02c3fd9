"""Configurations: every file loads, YAML pitfalls are avoided, all errors are reported together."""

import dataclasses
import inspect
import typing

import pytest
import yaml

from jbpool.classification.task import GRAPH_CLASSIFY
from jbpool.clustering.task import NODE_CLUSTER
from jbpool.engine.config import CONFIGS, find_config, load_config, read_yaml
from jbpool.errors import ConfigError
from jbpool.schema import as_dict

FILES = sorted(CONFIGS.glob("*/*.yaml"))
TASKS = {task.name: task for task in (NODE_CLUSTER, GRAPH_CLASSIFY)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_file_loads_and_opens_with_its_command(path):
    task = TASKS[path.parent.name]
    config = load_config(task, path.name)
    command = f"# jbpool {task.name.partition('_')[2]}"
    assert path.read_text().startswith(f"{command} --cfg {path.name}\n")
    assert load_config(task, path.stem) == config == load_config(task, str(path))
    assert task.unused(config) == []


def test_a_hash_in_a_value_of_set_is_no_comment():
    config = load_config(GRAPH_CLASSIFY, "file", ["dataset.folder=my graphs #1"])
    assert config.dataset.options["folder"] == "my graphs #1"
    config = load_config(GRAPH_CLASSIFY, "file", ["dataset.folder='7'"])
    assert config.dataset.options["folder"] == "7"


def test_the_paper_s_sets_have_the_paper_s_network_and_the_recommended_one():
    recommended = [load_config(NODE_CLUSTER, name) for name in ("cora", "citeseer", "pubmed", "dblp")]
    for one in recommended:
        assert (one.model, one.method, one.train) == (recommended[0].model, recommended[0].method, recommended[0].train)
    for name in ("cora", "citeseer", "pubmed", "dblp"):
        model, train = (getattr(load_config(NODE_CLUSTER, f"paper/{name}"), part) for part in ("model", "train"))
        assert (model.backbone, model.delta, model.layers, model.hidden, model.mlp) == ("delta", 0.85, 10, 64, [16])
        assert (train.epochs, len(train.seeds)) == (2000, 10)


def test_the_embedded_defaults_are_files():
    assert load_config(NODE_CLUSTER) == load_config(NODE_CLUSTER, "sbm.yaml")
    assert load_config(GRAPH_CLASSIFY) == load_config(GRAPH_CLASSIFY, "motifs.yaml")


def test_a_config_survives_its_file(tmp_path):
    config = load_config(NODE_CLUSTER, "file.yaml", ["method.name=jb", "method.objective={cut: 1, balance: 0.5}"])
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(as_dict(config)))
    assert load_config(NODE_CLUSTER, str(tmp_path / "config.yaml")) == config
    assert config.dataset.options["edges"] == "edges.csv"


def test_a_dataset_without_a_name_is_the_default_of_its_task(tmp_path):
    for task, name in ((NODE_CLUSTER, "sbm"), (GRAPH_CLASSIFY, "motifs")):
        (tmp_path / "c.yaml").write_text(f"task: {task.name}\ndataset: {{seed: 3}}\n")
        assert load_config(task, str(tmp_path / "c.yaml")).dataset.name == name


def test_the_traps_of_yaml():
    assert read_yaml("a: 1e-4\nb: off\nc: yes\nd: true\ne: 5E3\nf: .5\ng: 010\nh: 1e4x", "") == {
        "a": 1e-4, "b": "off", "c": "yes", "d": True, "e": 5000.0, "f": 0.5, "g": 10, "h": "1e4x"
    }  # fmt: skip
    with pytest.raises(ConfigError, match="'a' on line 3 is already given on line 1"):
        read_yaml("a: 1\nb: 2\na: 3", "file")
    with pytest.raises(ConfigError, match="should be a name"):
        read_yaml("[1, 2]: 3", "file")
    with pytest.raises(ConfigError, match="line 2"):
        read_yaml("a: 1\n  b: 2", "file")
    with pytest.raises(ConfigError):
        read_yaml("a: !!python/object/apply:os.system ['true']", "file")


def test_all_problems_at_once(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(
        "task: node_cluster\nmodle: {}\nmodel: {hiden: 3, layers: many}\ntrain: {lr: fast, seeds: [a]}\nmethod: 3\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_config(NODE_CLUSTER, str(path), ["train.epochs=1.5", "nonsense"])
    message = str(caught.value)
    for words in (
        "'modle' is unknown. Did you mean 'model'?", "'model.hiden' is unknown. Did you mean 'model.hidden'?",
        "model.layers='many' should be a whole number", "train.lr='fast' should be a number", "train.seeds=['a']",
        "'method' is a section, not 3", "train.epochs=1.5", "--set nonsense: write it as", str(path),
    ):  # fmt: skip
        assert words in message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["train.epochs=0"], "train.epochs=0 should be at least 1"),
        (["train.lr=0"], "train.lr=0.0 should be above 0"),
        (["train.seeds=[]"], "at least one"),
        (["train.seeds=[1, 1]"], "contains a seed twice"),
        (["task=graph_classify"], "this is the task 'node_cluster'"),
        (["model.layers=true"], "should be a whole number"),
    ],
)
def test_values_out_of_range(changes, words):
    with pytest.raises(ConfigError, match=words):
        load_config(NODE_CLUSTER, None, changes)


def test_problems_of_every_kind_are_reported_together_with_the_place_of_each(tmp_path):
    changes = {
        "method.name=mincutt": "Did you mean 'mincut'",
        "method.objective={cutt: 1}": "Did you mean 'cut'",
        "train.epoch=3": "Did you mean 'train.epochs'",
        "train.lr=-1": "should be above 0",
        "train.patience.x=5": "'patience' is a value, not a section",
        "train.epochs=x": "should be a whole number",
        "train.restarts=[1": "not YAML",
        "method.cluster_sizes=[1, 2]": "add up to 1",
        "model.mlp=[0]": "at least 1",
        "model.delta=.nan": "at most 1",
        "dataset.mixin=1": "Did you mean 'mixing'",
        "dataset.seed=abc": "should be a whole number",
    }
    (tmp_path / "a.yaml").write_text("task: node_cluster\nmodel: {backbone: gccn}\ntrain: {patience: 3}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(NODE_CLUSTER, str(tmp_path / "a.yaml"), list(changes))
    lines = str(caught.value).splitlines()
    for change, words in changes.items():
        assert any(line.startswith(f"--set {change}: ") and words in line for line in lines), (change, lines)
    assert any(line.startswith(f"{tmp_path / 'a.yaml'}, line 2: ") and "Did you mean 'gcn'" in line for line in lines)
    assert len(lines) == len(changes) + 1


@pytest.mark.parametrize("task", [NODE_CLUSTER, GRAPH_CLASSIFY])
def test_a_step_that_does_not_smooth_is_refused_before_the_run(task):
    """As ``DeltaConv`` would refuse it when the run has begun."""
    with pytest.raises(ConfigError, match=r"model.delta=1.5 should be at least 0 and at most 1"):
        load_config(task, changes=["model.delta=1.5"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["method.name=dmon", "method.cluster_sizes=[0.5, 0.5]"], "which dmon does not have"),
        (["method.objective={}"], "method.objective is empty"),
        (["method.name=sc", "method.objective={cut: 1}"], "not for sc"),
        (["dataset.name=file", "dataset.edges=5"], "dataset.edges=5 should be text or nothing"),
        (["dataset.name=file", "dataset.edges=e.csv", "dataset.header=maybe"], "should be true or false or nothing"),
    ],
)
def test_choices_that_do_not_go_together(changes, words):
    with pytest.raises(ConfigError, match=words):
        load_config(NODE_CLUSTER, None, changes)


@pytest.mark.parametrize(
    ("task", "changes", "unused"),
    [
        ("node_cluster", ["model.backbone=gin", "model.delta=0.5", "model.hidden=8"], {"model.delta"}),
        ("node_cluster", ["model.backbone=sgc", "model.delta=0.5", "model.hidden=8"], {"model.hidden"}),
        ("node_cluster", ["dataset.weighting=idf"], {"dataset.weighting"}),
        ("node_cluster", ["method.temperature=0.5", "method.head=cosine"], set()),
        ("node_cluster", ["method.name=dmon", "method.sqrt=diagonal"], {"method.sqrt"}),
        ("node_cluster", ["method.objective={cut: 1, balance: 1}", "method.sqrt=diagonal"], set()),
        ("node_cluster", ["method.name=sc", "train.restarts=4"], {"train.restarts"}),
        ("node_cluster", ["method.name=auto", "train.restarts=4", "dataset.weighting=idf"], {"dataset.weighting"}),
        ("graph_classify", ["model.delta=0.5"], {"model.delta"}),
        ("graph_classify", ["model.delta=0.5", "search.grid.model.backbone=[gin, delta]"], set()),
        ("graph_classify", ["method.temperature=0.5"], {"method.temperature"}),
        ("graph_classify", ["model.pool=none", "model.mlp=[8]", "method.sqrt=diagonal"], {"model.mlp", "method.sqrt"}),
        ("graph_classify", ["model.pool=none", "model.compare=[jb]", "model.mlp=[8]", "method.sqrt=diagonal"], set()),
        ("graph_classify", ["model.pool=mincut", "method.sqrt=diagonal"], {"method.sqrt"}),
    ],
)
def test_settings_without_effect_are_known(task, changes, unused, tmp_path):
    (tmp_path / "defaults.yaml").write_text(f"task: {task}\n")
    config = load_config(TASKS[task], str(tmp_path / "defaults.yaml"), changes)
    assert set(TASKS[task].unused(config)) == unused


def test_another_dataset_does_not_get_the_options_of_the_first():
    config = load_config(NODE_CLUSTER, None, ["dataset.normalize=false", "dataset.name=cora", "dataset.root=x"])
    assert (config.dataset.name, config.dataset.root, config.dataset.options) == ("cora", "x", {"normalize": False})


def test_a_tilde_is_nothing():
    assert load_config(NODE_CLUSTER, None, ["method.num_clusters=~"]).method.num_clusters is None


@pytest.mark.parametrize("mark", ["|", ",", "\t", " ", ":", ";"])
def test_a_lone_mark_is_a_separator(mark):
    changes = ["dataset.name=file", "dataset.edges=e.csv", f"dataset.separator={mark}"]
    assert load_config(NODE_CLUSTER, None, changes).dataset.options["separator"] == mark


def test_a_file_that_is_not_there():
    with pytest.raises(ConfigError, match=r"Did you mean 'dblp\.yaml'.*cora\.yaml"):
        load_config(NODE_CLUSTER, "dblpp.yaml")


def test_a_file_without_its_task(tmp_path):
    (tmp_path / "a.yaml").write_text("train: {epochs: 3}\n")
    with pytest.raises(ConfigError, match="'task: node_cluster' is missing"):
        load_config(NODE_CLUSTER, str(tmp_path / "a.yaml"))


def test_changes_reach_lists_numbers_and_options():
    changes = ["train.seeds=3", "model.mlp=[8, 4]", "train.lr=1e-3", "dataset.mixing=0.1"]
    config = load_config(NODE_CLUSTER, None, changes)
    assert config.train.seeds == [3]
    assert config.model.mlp == [8, 4]
    assert config.train.lr == 1e-3
    assert config.dataset.options["mixing"] == 0.1
    assert load_config(NODE_CLUSTER).model.mlp == [64]                      # the default itself is not changed


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_every_setting_has_a_line_of_explanation(task):
    """In the class that declares the field or in its base class."""
    for section in dataclasses.fields(task.schema):
        kind = typing.get_type_hints(task.schema)[section.name]
        for setting in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
            source = "".join(inspect.getsource(base) for base in kind.__mro__ if dataclasses.is_dataclass(base))
            lines = [line for line in source.splitlines() if line.strip().startswith(f"{setting.name}:")]
            plain = ("name", "options", "epochs", "lr", "seeds", "weight_decay")        # speak for themselves
            assert any("#" in line for line in lines) or setting.name in plain, lines


def test_two_ways_to_say_k_in_one_file_are_an_error(tmp_path):
    path = tmp_path / "both.yaml"
    path.write_text("task: graph_classify\nmodel: {ratio: 0.5, num_clusters: [3]}\n")
    with pytest.raises(ConfigError, match="give only one of them"):
        load_config(GRAPH_CLASSIFY, str(path))
    assert load_config(GRAPH_CLASSIFY, str(path), ["model.ratio=0.25"]).model.num_clusters is None
    with pytest.raises(ConfigError, match="give only one of them"):
        load_config(GRAPH_CLASSIFY, str(path), ["model.ratio=0.25", "model.num_clusters=[3]"])
    path.write_text("task: graph_classify\nmodel: {ratio: 0.25}\n")
    assert load_config(GRAPH_CLASSIFY, str(path), ["model.num_clusters=null"]).model.ratio == 0.25


def test_a_path_comes_before_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_config("cora.yaml", "node_cluster") == CONFIGS / "node_cluster" / "cora.yaml"
    (tmp_path / "cora.yaml").touch()
    assert find_config("cora.yaml", "node_cluster").resolve() == tmp_path / "cora.yaml"


def test_a_key_set_to_nothing_does_not_remove_its_alternative():
    key, other = next(iter(GRAPH_CLASSIFY.exclusive.items()))
    section, name = other.split(".")
    before = getattr(getattr(load_config(GRAPH_CLASSIFY), section), name)
    for changes, expected in (([f"{key}=~"], True), ([f"{other}=[5]", f"{key}=~"], False)):
        after = getattr(getattr(load_config(GRAPH_CLASSIFY, None, changes), section), name)
        assert (after == before) == expected

