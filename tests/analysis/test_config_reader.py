import pytest

from jade import yaml_file
from jade.analysis import config_reader
from jade.analysis.config_reader import ConfigReader
from jade.errors import ConfigError
from jade.overrides import flatten

FIRST = """\
# Run it again: first
seed: 1
name: one
model:
  params:
    lr: 0.1
    layers:
    - 8
    text: 'quoted: yes'
    every: 2 epochs
"""


@pytest.fixture
def parsed(monkeypatch):
    """What was parsed by the slow reader."""
    texts, parse = [], yaml_file.parse
    monkeypatch.setattr(
        config_reader.yaml_file, "parse", lambda text, name: texts.append(text) or parse(text, name)
    )
    return texts


def read_both(tmp_path, first, second):
    reader = ConfigReader()
    (tmp_path / "a.yml").write_text(first)
    (tmp_path / "b.yml").write_text(second)
    return reader.read(tmp_path / "a.yml"), reader.read(tmp_path / "b.yml")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lr: 0.1", "lr: 1.0e-05"),
        ("lr: 0.1", "lr: null"),
        ("lr: 0.1", "lr: -3"),
        ("seed: 1", "seed: text"),
        ("name: one", "name: a/b.c"),
        ("every: 2 epochs", "every: 500 iterations"),
        ("again: first", "again: second"),
    ],
)
def test_file_that_differs_in_values_is_not_parsed_again(tmp_path, parsed, old, new):
    text = FIRST.replace(old, new)

    first, second = read_both(tmp_path, FIRST, text)

    assert len(parsed) == 1
    assert first == flatten(yaml_file.parse(FIRST, "").values)
    assert second == flatten(yaml_file.parse(text, "").values)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("- 8", "- 9"),
        ("lr: 0.1", "lr: [1]"),
        ("lr: 0.1", "rate: 0.1"),
        ("lr: 0.1", "lr: None"),
        ("lr: 0.1", "lr: 'a'"),
        ("lr: 0.1", "lr: 0.1 # comment"),
        ("    lr: 0.1", "  lr: 0.1"),
        ("text: 'quoted: yes'", "text: plain"),
        ("seed: 1\n", "seed: 1\nmore: 2\n"),
        ("lr: 0.1", "lr: {a: 1}"),
    ],
)
def test_file_that_differs_in_more_is_parsed(tmp_path, parsed, old, new):
    text = FIRST.replace(old, new)
    try:
        expected = flatten(yaml_file.parse(text, "").values)
    except ConfigError:
        with pytest.raises(ConfigError):
            read_both(tmp_path, FIRST, text)
        return
    parsed.clear()

    _, second = read_both(tmp_path, FIRST, text)

    assert len(parsed) == 2
    assert second == expected


def test_value_on_several_lines_is_not_taken_for_one_line(tmp_path, parsed):
    first = "a: one\n  two\nb: 1\n"

    _, second = read_both(tmp_path, first, first.replace("one", "three"))

    assert second == {"a": "three two", "b": 1}
    assert len(parsed) == 2


@pytest.mark.parametrize("content", [b"a: [1", b"- 1\n", b"\xff\xfe\x00", b""])
def test_damaged_file_is_a_configuration_error(tmp_path, content):
    (tmp_path / "a.yml").write_bytes(content)
    with pytest.raises(ConfigError):
        ConfigReader().read(tmp_path / "a.yml")
