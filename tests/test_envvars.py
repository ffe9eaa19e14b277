import logging

import pytest

from jade.envvars import expand_text, has_variables, read_environment, similar_variable
from jade.errors import ConfigError

ENVIRON = {"A": "1", "B_2": "two", "EMPTY": "", "PATHS": "/x:/y"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$A", 1),  # C7: read again, as a number
        ("${A}", 1),
        ("$A$A", 11),
        ("${A}e-3", 0.001),
        ("$B_2/data", "two/data"),
        ("${B_2}_x", "two_x"),
        ("$$A", "$A"),
        ("a$", "a$"),
        ("$5", "$5"),
        ("${NONE:-7}", 7),
        ("${NONE:-}", None),
        ("${EMPTY:-7}", 7),
        ("${A:-7}", 1),
        ("x${EMPTY}", "x"),
        ("${NONE:-${B_2}/data}", "two/data"),
        ("${NONE:-$A}", 1),
        ("${NONE:-$$}", "$"),
    ],
)
def test_variables_are_expanded_and_read_again(text, value):  # C7
    expanded, missing = expand_text(text, ENVIRON)

    assert expanded.value == value
    assert missing == []


def test_missing_variables_are_all_named():  # C7
    assert expand_text("$X/${Y}/$A/${Z:-$W}", ENVIRON)[1] == ["X", "Y", "W"]


@pytest.mark.parametrize("text", ["${A-1}", "${1A}", "${A", "${}", "${a b}"])
def test_malformed_variable_is_refused(text):
    with pytest.raises(ConfigError, match=r"is not a variable; write \$\{NAME\}"):
        expand_text(text, ENVIRON)


@pytest.mark.parametrize(
    ("value", "has"), [("$A", True), ("$$", True), ("a", False), ("$", False), (3, False)]
)
def test_only_text_with_a_variable_has_variables(value, has):
    assert has_variables(value) is has


def test_similar_variable_names_one_that_is_set():
    assert similar_variable("WAND_USER", {"WANDB_USER": "x"}) == (
        " Is WANDB_USER meant, which is set?"
    )
    assert similar_variable("DATA_ROOT", {"HOME": "x"}) == ""


def test_env_file_of_the_working_directory_is_read(tmp_path, monkeypatch):  # C9
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("A=file\nexport B='x y'\n# C=1\nD=${B}/z\nE\n")

    environ = read_environment({"A": "real"}, None)

    assert environ == {"A": "real", "B": "x y", "D": "x y/z"}


def test_env_file_can_be_named(tmp_path, monkeypatch):  # C9
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.env").write_text("A=1\n")

    assert read_environment({}, "my.env") == {"A": "1"}


def test_without_an_env_file_the_environment_is_copied(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").mkdir()
    environ = {"A": "1"}

    read = read_environment(environ, None)
    read["B"] = "2"

    assert environ == {"A": "1"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no.env", "--env_file: no.env does not exist"),
        (".", "--env_file: . is a directory"),
        ("binary.env", "--env_file: binary.env cannot be read"),
        ("other.yml", "--env_file: not of the form NAME=value: other.yml:2, 3"),
    ],
)
def test_env_file_that_cannot_be_read_is_refused(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "binary.env").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "other.yml").write_text("A=1\nfoo bar\nb: 2\n")

    with pytest.raises(ConfigError, match=message):
        read_environment({}, name)


def test_line_that_is_no_assignment_is_warned_of(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("A=1\nfoo bar baz\n")

    with caplog.at_level(logging.WARNING):
        assert read_environment({}, None) == {"A": "1"}

    assert "line 2" in caplog.text
