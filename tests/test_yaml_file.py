import math

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from jade.errors import ConfigError
from jade.scalar import parse_scalar
from jade.yaml_file import Origin, load, load_mapping, parse, render

# A busy machine is no failure, and a test leaves nothing behind.
PROPERTY = settings(deadline=None, database=None, max_examples=60)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
KEYS = st.text() | st.integers()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=12
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),  # C12, T31
        ("1E5", 1e5),
        ("1.", 1.0),
        (".5", 0.5),
        ("-1.5e+3", -1500.0),
        ("010", 10),  # T32: not octal
        ("0o10", 8),
        ("0xff", 255),
        ("+3", 3),
        (".inf", math.inf),
        ("-.inf", -math.inf),
        ("~", None),
        ("", None),
        ("null", None),
        ("TRUE", True),
        ("false", False),
        ("yes", "yes"),  # T32: text
        ("on", "on"),
        ("10:00:00", "10:00:00"),
        ("1_000", "1_000"),
        ("1.2.3", "1.2.3"),
        ("2024-01-01", "2024-01-01"),
        ("e5", "e5"),
        ("0x", "0x"),
    ],
)
def test_scalars_are_read_by_yaml_1_2(text, value):
    parsed = parse_scalar(text)

    assert parsed == value
    assert type(parsed) is type(value)


def test_nan_is_a_number():
    assert math.isnan(parse_scalar(".nan"))


def test_quoted_and_tagged_scalars_stay_text():
    values = parse("{a: '1', b: \"true\", c: !!str 3, d: 3}", "f.yml").values

    assert values == {"a": "1", "b": "true", "c": "3", "d": 3}


def test_each_value_knows_its_line():
    text = "a: 1\nb:\n  c:\n    - x\n    - y\n"

    origins = parse(text, "f.yml").origins

    assert origins[("a",)] == Origin("f.yml", 1)
    assert origins[("b", "c")] == Origin("f.yml", 3)
    assert origins[("b", "c", 1)] == Origin("f.yml", 5)


def test_origin_without_a_line_is_its_source():
    assert str(Origin("sweep")) == "sweep"
    assert str(Origin("f.yml", 3)) == "f.yml:3"


def test_merge_keys_are_below_what_is_written():
    text = "base: &b {x: 1, y: 2}\nmore: &m {y: 3, z: 4}\none:\n  <<: *b\n  y: 5\nall:\n  <<: [*b, *m]\n"

    values = parse(text, "f.yml").values

    assert values["one"] == {"x": 1, "y": 5}
    assert values["all"] == {"x": 1, "y": 2, "z": 4}


def test_quoted_merge_key_is_an_ordinary_key():
    assert parse("'<<': 1", "f.yml").values == {"<<": 1}


def test_none_is_read_as_null_with_a_warning():  # C12
    document = parse("a: None\nb: 'None'", "f.yml")

    assert document.values == {"a": None, "b": "None"}
    assert document.warnings == [
        "f.yml:1: None is read as null; write null, or 'None' for the text."
    ]


def test_leading_zeros_are_warned_of():  # T32
    assert parse("a: 007", "f.yml").warnings == [
        "f.yml:1: 007 is read as 7; write that, or '007' for the text."
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "f.yml:3: the key 'a' stands here and in line 1."),
        ("x:\n  y: 1\n  y: 2", "f.yml:3: the key 'y' stands here and in line 2."),
        ("a: !thing 3", "f.yml:1: the tag '!thing' is not supported."),
        ("a: !!int '3'", "f.yml:1: the tag 'tag:yaml.org,2002:int' is not supported."),
        ("a: !!python/tuple [1]", "f.yml:1: the tag 'tag:yaml.org,2002:python/tuple' is not"),
        ("a: &x [*x]", "f.yml:1: an anchor that contains itself"),
        ("? [1, 2]\n: 3", "f.yml:1: a key must be a plain value"),
        ("<<: 3", "f.yml:1: '<<' takes a mapping or a list of mappings."),
    ],
)
def test_unusable_yaml_is_refused_with_its_line(text, message):  # C12: duplicate keys
    with pytest.raises(ConfigError) as caught:
        parse(text, "f.yml")

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "shown"),
    [
        ("layers:\n  -1024\n  -256", 2, "layers:\n      - 1024\n      - 256"),  # T3
        ("layers:\n  -1024", 2, "layers:\n      - 1024"),
        ("layers:\n  -relu", 2, "layers:\n      - relu"),
        ("layers: -1024 -256", 1, "layers:\n      - 1024\n      - 256"),
        ("layers:\n  -1024\n  - 256", 2, "layers:\n      - 1024\n      - 256"),
        ("layers:\n  - 1024\n   -256", 2, "layers:\n      - 1024\n      - 256"),
        ("x:\n  - a:\n      -1", 3, "a:\n      - 1"),
    ],
)
def test_dashes_without_blanks_show_the_corrected_list(text, line, shown):  # C12, T3
    with pytest.raises(ConfigError) as caught:
        parse(text, "f.yml")

    message = str(caught.value)
    assert message.startswith(f"f.yml:{line}: ")
    assert shown in message


def test_single_negative_number_below_its_key_tells_both_readings():
    with pytest.raises(ConfigError, match="for the number write x: -5 on one line"):
        parse("x:\n  -5", "f.yml")


@pytest.mark.parametrize("text", ["x: -5", "x: '-5 -6'", "x:\n  - -5", "x: a-b", "x: [-1, -2]"])
def test_negative_numbers_and_quoted_dashes_are_fine(text):
    assert "x" in parse(text, "f.yml").values


def test_all_problems_of_a_file_are_in_one_message():
    with pytest.raises(ConfigError, match=r"(?s)2 problems.*f.yml:2.*f.yml:4"):
        parse("a: 1\na: 2\nlayers:\n  -1\n", "f.yml")


@pytest.mark.parametrize(
    ("text", "where", "hint"),
    [
        ("a:\n\tb: 1", "f.yml:2", "use blanks"),
        ("class: X\n params:\n", "f.yml:2", "indented wrongly"),
        ("a:\n    b: 1\n  c: 2", "f.yml:3", "same column"),
        ("class:X\nparams:\n  a: 1", "f.yml:2", "must follow the colon of 'class:'"),
        ("Error\n  class: X", "f.yml:2", "lack its colon"),
        ("a: b: c", "f.yml:1", "needs quotes"),
        ("a: 'b\nc: 1", "f.yml:1", "the quote that opens here is not closed"),
        ("a: [1, 2\nb: 3", "f.yml:1", "bracket that opens here is not closed"),
        ("a: {b: 1\nc", "f.yml:1", "brace that opens here is not closed"),
        ("a:\n  - 1\n  -2\nb: 1", "f.yml:3", "blank must follow each dash"),
        ("a: 1\n---\nb: 2", "f.yml:2", "remove the line ---"),
        ("a: @b", "f.yml:1", "needs quotes"),
        ("a: \x07", "f.yml", "special characters are not allowed"),
        ("a: *nowhere", "f.yml:1", "undefined alias"),
    ],
)
def test_syntax_errors_tell_the_line_and_what_was_forgotten(text, where, hint):
    with pytest.raises(ConfigError) as caught:
        parse(text, "f.yml")

    message = str(caught.value)
    assert message.startswith(where)
    assert hint in message


def test_load_says_what_is_wrong_with_a_file(tmp_path):
    def message(name, content=None):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigError) as caught:
            load_mapping(tmp_path / name, "--model_conf")
        return str(caught.value).replace(str(tmp_path), "D")

    (tmp_path / "model.yml").write_text("a: 1")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.yaml").write_text("a: 1")
    assert message("modle.yml").startswith(
        "--model_conf: D/modle.yml does not exist. Did you mean 'model.yml'? Known: "
    )
    assert "There is no folder D/no" in message("no/model.yml")
    assert message("folder").endswith("a YAML file is needed. It holds D/folder/x.yaml.")
    assert message("empty.yml", b"# nothing\n") == "--model_conf: D/empty.yml is empty."
    assert "not a text file (byte 0" in message("binary.yml", b"\x80\x04\x95")
    assert "NUL bytes" in message("nul.yml", b"a: \0")
    assert "not a list" in message("list.yml", b"- 1\n")
    assert "not 'class = X'" in message("text.yml", b"class = X\n")
    assert "is a Python file" in message("net.py", b"x: 1\n")
    assert "cannot be read: Not a directory" in message("model.yml/x.yml")


def test_load_accepts_a_byte_order_mark(tmp_path):
    path = tmp_path / "f.yml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")

    assert load(path).values == {"a": 1}


@PROPERTY
@given(st.dictionaries(KEYS, VALUES))
def test_render_and_parse_are_inverse(values):  # C13
    assert parse(render(values), "f.yml").values == (values or {})


@PROPERTY
@given(st.text())
def test_other_readers_of_yaml_read_the_same_text(text):
    assert yaml.safe_load(render({"a": text})) == {"a": text}


def test_render_keeps_each_value_on_its_line():
    text = render({"a": "one\ntwo", "b": "long " * 100}, header=["A header"])

    assert len(text.splitlines()) == 3
    assert text.startswith("# A header\n")


def test_render_writes_floats_for_readers_of_yaml_1_1():
    text = render({"a": 1e-05, "b": math.inf, "c": -math.inf, "d": math.nan, "e": (1, 2)})

    assert yaml.safe_load(text)["a"] == 1e-05
    assert text.splitlines()[1:4] == ["b: .inf", "c: -.inf", "d: .nan"]
    assert parse(text, "f.yml").values["e"] == [1, 2]
