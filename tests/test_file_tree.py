import pytest

from jade.errors import ConfigError
from jade.file_tree import load_tree, merge_document
from jade.origin import Origin
from jade.yaml_file import Document, parse


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path.relative_to(tmp_path)

    return write


def test_included_file_is_below_the_including_one(write):  # C4
    write("base.yml", "a: 1\nb: 1\n")
    top = write("top.yml", "default_configs: base.yml\nb: 2\n")

    document = load_tree(top)

    assert document.values == {"a": 1, "b": 2}
    assert document.origins[("a",)] == Origin("base.yml", 1)
    assert document.origins[("b",)] == Origin("top.yml", 2)


def test_later_entry_wins_over_an_earlier_one(write):  # C4
    write("one.yml", "a: 1\nb: 1\n")
    write("two.yml", "b: 2\n")
    top = write("top.yml", "default_configs: [one.yml, two.yml]\n")

    assert load_tree(top).values == {"a": 1, "b": 2}


def test_includes_nest_and_a_diamond_loads_once(write):  # C4
    write("root.yml", "a: root\nonly_root: None\n")
    write("left.yml", "default_configs: root.yml\na: left\n")
    write("right.yml", "default_configs: root.yml\nb: right\n")
    top = write("top.yml", "default_configs: [left.yml, right.yml]\n")

    document = load_tree(top)

    # A second reading of root.yml would have put its value above that of left.yml.
    assert document.values == {"a": "left", "b": "right", "only_root": None}
    assert len(document.warnings) == 1


def test_paths_are_relative_to_the_file_then_to_the_working_directory(write):  # C4
    write("conf/near.yml", "a: conf\n")
    write("near.yml", "a: cwd\n")
    write("far.yml", "b: cwd\n")
    top = write("conf/top.yml", "default_configs: [near.yml, far.yml]\n")

    assert load_tree(top).values == {"a": "conf", "b": "cwd"}


def test_cycle_shows_the_chain(write):  # C4
    write("b.yml", "default_configs: c.yml\n")
    write("c.yml", "default_configs: [b.yml]\n")
    top = write("a.yml", "default_configs: b.yml\n")

    with pytest.raises(ConfigError, match=r"a\.yml -> b\.yml -> c\.yml -> b\.yml"):
        load_tree(top)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("default_configs: {a: 1}\n", "top.yml:1: default_configs takes a path or a list of paths"),
        ("a: 1\ndefault_configs: [3]\n", "top.yml:2: default_configs takes a path"),
        (
            "default_configs: sub/no.yml\n",
            "conf/top.yml:1: default_configs names 'sub/no.yml'; there is no conf/sub/no.yml "
            "and no sub/no.yml.",
        ),
        (
            "default_config: x.yml\n",
            "unknown key 'default_config'. Did you mean 'default_configs'?",
        ),
    ],
)
def test_wrong_include_is_refused_with_its_line(write, text, message):
    top = write("conf/top.yml", text)

    with pytest.raises(ConfigError) as caught:
        load_tree(top)

    assert message in str(caught.value)


def test_missing_root_names_the_flag(write):
    with pytest.raises(ConfigError, match=r"^--config: no\.yml does not exist"):
        load_tree(write("x.yml", "a: 1").with_name("no.yml"), "--config")


def test_merging_forgets_the_origin_of_what_was_pushed_out():
    base = Document({})
    merge_document(base, parse("class: A\nparams: {x: 1}\nlayers: [1, 2]", "one.yml"), ("model",))

    merge_document(base, parse("class: B\nparams: {y: 1}\nlayers: [3]", "two.yml"), ("model",))

    assert base.values["model"]["params"] == {"y": 1}
    assert ("model", "params", "x") not in base.origins
    assert ("model", "layers", 1) not in base.origins
    assert base.origins[("model", "params", "y")] == Origin("two.yml", 2)


def test_remembered_trees_are_read_once_and_given_out_as_copies(tmp_path):
    from jade.file_tree import RememberedTrees

    path = tmp_path / "a.yml"
    path.write_text("a: {b: 1}\n")
    load = RememberedTrees()
    load(path).values["a"]["b"] = 2
    path.write_text("a: {b: 3}\n")
    assert load(path).values == {"a": {"b": 1}}
