"""Every swept value provably took effect, or nothing runs."""

import pytest

from jade.cli import main
from jade.errors import ConfigError
from jade.origin import Origin
from jade.overrides import Override
from jade.swept import find_lost

SWEEP = Origin("sweep")


def lost(values, *applied):
    pairs = [
        (tuple(key.split(".")), Override(key, value, SWEEP, swept=swept))
        for key, value, swept in applied
    ]
    return list(find_lost(pairs, values))


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (1, 1.0),
        ("1e-5", 1e-05),
        (1e-05, "1e-5"),
        ([1, "2e3"], (1, 2000.0)),
        ({"a": 1}, {"a": 1, "b": 2}),
        (None, None),
        ("None", "None"),
        (float("nan"), float("nan")),
    ],
)
def test_equal_values_are_no_mismatch(asked, found):
    assert lost({"a": found}, ("a", asked, True)) == []


@pytest.mark.parametrize(
    ("asked", "found"),
    [(1, 2), (True, 1), ([1], [1, 2]), ({"a": 1}, {"b": 1}), ("a", "b"), (0, None)],
)
def test_other_values_are_a_mismatch(asked, found):
    (text,) = lost({"a": found}, ("a", asked, True))
    assert (
        text
        == f"The sweep's a = {asked!r} (sweep) has no effect: the configuration has a = {found!r}."
    )


def test_value_that_was_dropped_is_missed():
    (text,) = lost({}, ("a.b", 1, True))
    assert "it was dropped, the configuration has no a.b." in text


def test_only_values_of_a_sweep_matter():
    assert lost({"a": 2}, ("a", 1, False), ("a", 2, True)) == []


def test_who_replaced_it_is_named():
    (text,) = lost({"a": {"b": 2}}, ("a.b", 1, True), ("a", {"b": 2}, False))
    assert "a = {'b': 2} (sweep) replaces it. Keep one of them." in text


def train_in_a_sweep(project, arguments, monkeypatch, parameters):
    path = project.write("sweep-values.yml", parameters)
    monkeypatch.setenv("WANDB_SWEEP_PARAM_PATH", str(path))
    return main([*arguments, "--dry_run"])


def test_short_and_long_form_that_differ_are_refused(project, arguments, monkeypatch, capsys):
    code = train_in_a_sweep(
        project, arguments, monkeypatch, "model.lr: {value: 0.5}\nmodel.params.lr: {value: 0.25}\n"
    )
    assert code == 2
    message = capsys.readouterr().err
    assert (
        "The sweep's model.lr = 0.5 (sweep), which means model.params.lr, has no effect" in message
    )
    assert "model.params.lr = 0.25 (sweep) replaces it. Keep one of them." in message
    assert not (project.root / "experiments").exists()


def test_mapping_and_a_key_inside_it_that_differ_are_refused(
    project, arguments, monkeypatch, capsys
):
    text = "model: {value: {params: {lr: 0.5}}}\nmodel.params.lr: {value: 0.25}\n"
    assert train_in_a_sweep(project, arguments, monkeypatch, text) == 2
    assert "has no effect" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "model.lr: {value: 0.5}\nmodel.params.lr: {value: 0.5}\n",
        "model.lr: {value: 5e-1}\nmodel.params.lr: {value: 0.50}\n",
        "eval.Error.evaluate_every: {value: 2}\nseed: {value: 3}\n",
        "model: {value: {params: {batch_size: 2}}}\nepochs: {value: 1}\n",
    ],
)
def test_values_that_take_effect_run(project, arguments, monkeypatch, text):
    assert train_in_a_sweep(project, arguments, monkeypatch, text) == 0


def test_schedule_among_the_params_takes_effect(project, arguments, monkeypatch):
    project.write(
        "eval.yml",
        "Error:\n  class: SquaredError\n  params: {evaluate_on: test, evaluate_every: 1}\n",
    )
    text = "eval.Error.params.evaluate_every: {value: 2}\n"
    assert train_in_a_sweep(project, arguments, monkeypatch, text) == 0


def test_dropped_key_is_refused(project, arguments, monkeypatch, capsys):
    project.write("model.yml", "class: LineTrainer\nstrict: false\nparams: {lr: 0.1, other: 1}\n")
    assert train_in_a_sweep(project, arguments, monkeypatch, "model.other: {value: 2}\n") == 2
    assert "it was dropped" in capsys.readouterr().err


def test_resolving_a_point_in_python_raises(project, arguments):
    from jade.config import Sources, load
    from jade.resolve import resolve

    given = dict(item[2:].split("=") for item in arguments[1:])
    swept = [("model.lr", 1.0), ("model.params.lr", 2.0)]
    overrides = [
        *(Override(key, value, Origin("argument")) for key, value in given.items()),
        *(Override(key, value, SWEEP, swept=True) for key, value in swept),
    ]
    overrides = [o if o.key != "epochs" else Override("epochs", 1, o.origin) for o in overrides]
    overrides = [o if o.key != "seed" else Override("seed", 1, o.origin) for o in overrides]
    with pytest.raises(ConfigError, match="has no effect"):
        resolve(load(Sources(arguments=overrides)))
