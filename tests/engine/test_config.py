"""Configurations: every file loads, YAML pitfalls are avoided, all errors are reported together with their places."""

import dataclasses
import inspect
import typing

import pytest
import yaml

from jbpool.classification.graph_classify import GRAPH_CLASSIFY
from jbpool.clustering.node_cluster import NODE_CLUSTER
from jbpool.engine.config import CONFIGS, find_config, load_config, read_yaml, settings
from jbpool.errors import ConfigError
from jbpool.schema import as_dict

FILES = sorted(CONFIGS.glob("*/*.yaml"))
TASKS = {task.name: task for task in (NODE_CLUSTER, GRAPH_CLASSIFY)}


def problems(task, changes=(), name=None) -> list[str]:
    """The lines of the error."""
    with pytest.raises(ConfigError) as caught:
        load_config(task, name, changes)
    return str(caught.value).splitlines()


# ---------------------------------------------------------------- YAML


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


def test_scalars_are_those_of_yaml_1_2():
    text = "{a: 2024-13-45, b: 1:30, c: =, d: 0x1F, e: !!float 3, f: !!str 5, g: -.INF, h: 1_000, i: , j: <<}"
    assert read_yaml(text, "") == {
        "a": "2024-13-45", "b": "1:30", "c": "=", "d": "0x1F", "e": 3.0, "f": "5", "g": float("-inf"), "h": 1000,
        "i": None, "j": "<<",
    }  # fmt: skip


UNREADABLE = (
    "[" * 5000, "{a: " * 5000, "&x 1\nc: *x", "&x [*x]", "\0", "\x7f", "\t- x\n\ty", "{a: 1, a: 2}", "[{a: 1, a: 2}]",
    "{[1]: 2}", "'", "!!int x",
)  # fmt: skip


@pytest.mark.parametrize("value", UNREADABLE)
def test_a_text_that_cannot_be_read_is_one_line(value):
    with pytest.raises(ConfigError, match=r"^a\.yaml, line [1-4]: ") as caught:
        read_yaml(f"a: 1\nb: {value}", "a.yaml")
    assert len(str(caught.value).splitlines()) == 1


def test_latin_1_is_refused_with_its_line(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes("task: node_cluster\n# Größe\n".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"a\.yaml, line 2: the byte 0xf6 is not UTF-8"):
        load_config(NODE_CLUSTER, str(path))


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_file_loads_and_opens_with_its_command(path):
    task = TASKS[path.parent.name]
    config = load_config(task, path.name)
    command = f"# jbpool {task.name.partition('_')[2]}"
    assert path.read_text().startswith(f"{command} --cfg {path.name}\n")
    assert load_config(task, path.stem) == config == load_config(task, str(path))
    assert task.unused(config) == []


def test_the_paper_s_sets_have_the_paper_s_network_and_the_recommended_one():
    recommended = [load_config(NODE_CLUSTER, name) for name in ("cora", "citeseer", "pubmed", "dblp")]
    for config in recommended:
        assert (config.model, config.method) == (recommended[0].model, recommended[0].method)
        assert config.train == recommended[0].train
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


def test_which_file_a_name_means(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_config("cora.yaml", "node_cluster") == CONFIGS / "node_cluster" / "cora.yaml"
    (tmp_path / "cora.yaml").touch()
    assert find_config("cora.yaml", "node_cluster").resolve() == tmp_path / "cora.yaml"
    with pytest.raises(ConfigError, match=r"Did you mean 'dblp\.yaml'.*cora\.yaml"):
        load_config(NODE_CLUSTER, "dblpp.yaml")
    for name in ("x" * 5000, "\0"):
        with pytest.raises(ConfigError, match="no such file"):
            load_config(NODE_CLUSTER, name)


# ---------------------------------------------------------------- changes


def test_changes_reach_lists_numbers_and_options():
    changes = ["train.seeds=3", "model.mlp=[8, 4]", "train.lr=1e-3", "dataset.mixing=0.1", "method.num_clusters=~"]
    config = load_config(NODE_CLUSTER, None, changes)
    assert (config.train.seeds, config.model.mlp, config.train.lr) == ([3], [8, 4], 1e-3)
    assert config.dataset.options["mixing"] == 0.1
    assert config.method.num_clusters is None
    assert load_config(NODE_CLUSTER).model.mlp == [64]                      # the default itself is not changed


@pytest.mark.parametrize("mark", ["|", ",", "\t", " ", ":", ";"])
def test_a_lone_mark_is_a_separator(mark):
    changes = ["dataset.name=file", "dataset.edges=e.csv", f"dataset.separator={mark}"]
    assert load_config(NODE_CLUSTER, None, changes).dataset.options["separator"] == mark


def test_a_hash_in_a_value_of_set_is_no_comment():
    for text, value in (("my graphs #1", "my graphs #1"), ("'7'", "7")):
        assert load_config(GRAPH_CLASSIFY, "file", [f"dataset.folder={text}"]).dataset.options["folder"] == value


def test_another_dataset_does_not_get_the_options_of_the_first():
    config = load_config(NODE_CLUSTER, None, ["dataset.normalize=false", "dataset.name=cora", "dataset.root=x"])
    assert (config.dataset.name, config.dataset.root, config.dataset.options) == ("cora", "x", {"normalize": False})


def test_two_ways_to_say_k(tmp_path):
    path = tmp_path / "both.yaml"
    path.write_text("task: graph_classify\nmodel: {ratio: 0.5, num_clusters: [3]}\n")
    assert load_config(GRAPH_CLASSIFY, str(path), ["model.ratio=0.25"]).model.num_clusters is None
    both = ["model.ratio=0.25", "model.num_clusters=[3]"]
    model = load_config(GRAPH_CLASSIFY, str(path), both).model             # both together: at most
    assert (model.ratio, model.num_clusters) == (0.25, [3])
    path.write_text("task: graph_classify\nmodel: {ratio: 0.25}\n")         # a key set to nothing removes nothing
    assert load_config(GRAPH_CLASSIFY, str(path), ["model.num_clusters=null"]).model.ratio == 0.25


def test_where_a_setting_comes_from(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("task: node_cluster\ntrain:\n  epochs: 3\n")
    rows = {key: row for key, *row in settings(NODE_CLUSTER, str(path), ["method={name: dmon}"])}
    assert rows["train.epochs"] == [3, 2000, f"{path}, line 3"]
    assert rows["method.name"] == ["dmon", "jb", "--set method={name: dmon}"]
    assert rows["train.lr"][2] == rows["dataset.mixing"][2] == "default"


# ---------------------------------------------------------------- problems


def test_problems_of_every_kind_are_reported_together_with_the_place_of_each(tmp_path):
    changes = {
        "method.name=mincutt": "Did you mean 'mincut'",
        "method.objective={cutt: 1}": "Did you mean 'cut'",
        "train.epoch=3": "Did you mean 'train.epochs'",
        "train.lr=-1": "should be above 0",
        "train.patience.x=5": "'patience' is a value, not a section",
        "train.epochs=1.5": "should be a whole number",
        "train.restarts=[1": "not YAML",
        "train.seeds=[1, 1]": "contains a seed twice",
        "method.cluster_sizes=[1, 2]": "add up to 1",
        "model.layers=true": "should be a whole number",
        "model.mlp=[0]": "at least 1",
        "model.delta=.nan": "at most 1",
        "dataset.mixin=1": "Did you mean 'mixing'",
        "dataset.seed=abc": "should be a whole number",
        "nonsense": "write it as section.key=value",
    }
    path = tmp_path / "a.yaml"
    path.write_text("model: {backbone: gccn}\ntrain:\n  patience: 3\n  eval_every: x\nmodle: {}\n")
    lines = problems(NODE_CLUSTER, list(changes), str(path))
    for change, words in changes.items():
        assert any(line.startswith(f"--set {change}: ") and words in line for line in lines), (change, lines)
    places = {
        f"{path}: 'task": "is missing", f"{path}, line 1: ": "Did you mean 'gcn'", f"{path}, line 4: ": "whole number",
        f"{path}, line 5: ": "Did you mean 'model'",
    }  # fmt: skip
    for place, words in places.items():
        assert any(line.startswith(place) and words in line for line in lines), (place, lines)
    assert len(lines) == len(changes) + len(places)


def test_a_section_may_be_set_whole_and_text_of_any_kind_is_one_line():
    lines = problems(NODE_CLUSTER, ["method={name: nothing}", "train.lr=a\nb", "model=3"])
    for start in ("--set method={name: nothing}: method.name=", "--set train.lr=a\\nb: ", "--set model=3: 'model'"):
        assert any(line.startswith(start) for line in lines), (start, lines)
    assert problems(NODE_CLUSTER, ["task=\u200b\u2028"])[0].startswith(r"--set task=\u200b\u2028: task is ")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        (["method.name=dmon", "method.cluster_sizes=[0.5, 0.5]"], "dmon"),
        (["method.objective={}"], "empty"),
        (["method.objective={cut: .inf}"], "finite"),
        (["method.name=sc", "method.objective={cut: 1}"], "not for sc"),
        (["train.seeds=[]"], "at least one"),
        (["dataset.name=file", "dataset.edges=5"], "text"),
        (["dataset.name=file", "dataset.edges=e.csv", "dataset.header=maybe"], "true or false"),
    ],
)
def test_choices_that_do_not_go_together(changes, word):
    assert word in "".join(problems(NODE_CLUSTER, changes))


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
