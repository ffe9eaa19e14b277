"""What `jade agent` refuses before it asks anybody."""

import pytest

from jade.cli import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--devices=gpu"], "there is no device 'gpu'. Write cpu, cuda:0,cuda:1 or all."),
        (["--devices=cpu:1"], "there is no device 'cpu:1'"),
        (["--devices=cuda:0,cuda"], "names a device twice"),
        (["--per_device=0", "--count=0"], "--per_device must be at least 1, not 0."),
        (["--time_limit=3"], "'3' is no time. Write '55 minutes'"),
        (["--counts=3"], "There is no flag --counts. Did you mean --count?"),
        (["--count=many"], "invalid int value: 'many'"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message, capsys):
    assert main(["agent", "team/project/id", *arguments]) == 2

    assert message in capsys.readouterr().err


def test_a_name_that_is_no_sweep_is_refused(monkeypatch, capsys):
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)

    assert main(["agent", "a/b/c/d/e"]) == 2

    assert "does not name a sweep" in capsys.readouterr().err


def test_a_sweep_needs_a_login(capsys):
    assert main(["agent", "team/project/id"]) == 2

    assert "WANDB_API_KEY" in capsys.readouterr().err
