"""Building without data and numbers: real failures are found, and none is invented."""

import pytest

from jade.cli import main

TRAINER = """
    import torch
    from torch.utils.data import DataLoader, random_split

    from jade.trainer import Trainer


    class LineTrainer(Trainer):
        def initialize(self, lr: float = 0.1, batch_size: int = 4):
            self.net = self.instantiate_architecture("Net", n_out=1)
            self.opt = torch.optim.Adam(self.net.parameters(), lr=lr)
            {initialize}
            self.train_loader = DataLoader(self.datasets["train"], batch_size, shuffle=True)

        def fail(self):
            raise KeyError("b")

        def train_step(self, data):
            loss = ((self.net(data["x"]) - data["y"]) ** 2).mean()
            {step}
            self.add_loss_item("loss", loss)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
"""
EXAMPLE = '    example_sample = {"x": torch.zeros(2), "y": torch.zeros(1)}\n'


@pytest.fixture
def check(project, arguments, capsys):
    """Check a trainer with some lines of its own, on a dataset that declares its samples."""

    def check(initialize="pass", step="pass", example=EXAMPLE):
        project.write("modules/models/line.py", TRAINER.format(initialize=initialize, step=step))
        path = project.root / "modules/data/points.py"
        text = path.read_text().replace(
            "class Points(Dataset):\n", f"class Points(Dataset):\n{example}\n"
        )
        path.write_text(text)
        code = main(["check", *arguments[1:]])
        out, err = capsys.readouterr()
        return code, out + err

    return check


def test_everything_is_tried_where_samples_are_declared(check):
    code, text = check()
    assert code == 0, text
    assert "not tried" not in text
    assert "model: LineTrainer, 3 parameters" in text


def test_samples_may_depend_on_the_parameters(check):
    code, text = check(
        example="""    @classmethod
    def example_sample(cls, seed):
        assert seed == 0
        return {"x": torch.zeros(2), "y": torch.zeros(1)}
"""
    )
    assert (code, "not tried" in text) == (0, False)


@pytest.mark.parametrize(
    ("initialize", "step", "text"),
    [
        (
            "raise ValueError('too wide')",
            "pass",
            "ValueError: too wide (modules/models/line.py:12)",
        ),
        ("self.datasets['vaild']", "pass", "There is no dataset 'vaild' in the configuration."),
        ("self.net.missing", "pass", "AttributeError: 'Net' object has no attribute 'missing'"),
        ("torch.optim.SGD([], lr=lr)", "pass", "ValueError: optimizer got an empty parameter list"),
        ("self.opt = torch.optim.SGD(self.net.parameters(), lr=-1.0)", "pass", "Invalid learning"),
        ("pass", "loss = loss + data['z'].mean()", "KeyError: 'z' (modules/models/line.py:20)"),
        ("pass", "loss = self.net(data['y'])", "cannot be multiplied"),
        ("pass", "loss = self.net(data['x'])", "takes a number or a tensor with one element"),
        ("raise NotImplementedError('later')", "pass", "NotImplementedError: later"),
        ("pass", "raise KeyError('meta')", "KeyError: 'meta'"),
    ],
)
def test_failure_that_a_run_would_have_is_found(check, initialize, step, text):
    code, message = check(initialize, step)
    assert code == 2, message
    assert "This cannot be run." in message
    assert text in message


@pytest.mark.parametrize(
    ("initialize", "step", "text"),
    [
        ("pass", "print(loss.item())", "no batch is passed to the end: numbers are needed"),
        ("pass", "assert loss > 0", "numbers are needed (modules/models/line.py:20)"),
        ("torch.linspace(0, 1, 3).tolist()", "pass", "the networks are not built to the end"),
        ("self.net.layer.weight.detach().numpy()", "pass", "numbers are needed"),
        ("open('weights.pt')", "pass", "FileNotFoundError: [Errno 2]"),
        ("self.datasets['train'].vocabulary", "pass", "its attribute 'vocabulary' was needed"),
        ("self.datasets['train'].as_tensors()", "pass", "all of it was needed"),
        (
            "random_split(self.datasets['train'], [7, 3])",
            "pass",
            "the size of a dataset is needed (ValueError: Sum of input lengths",
        ),
        ("import no_such_package", "pass", "ModuleNotFoundError"),
        ("torch.zeros(1).to('cuda:99')", "pass", "the networks are not built"),
        (
            "if self.net.layer.weight.device.type == 'meta': raise ValueError('where am I?')",
            "pass",
            "it only fails without numbers",
        ),
        (
            "if self.net.layer.weight.is_meta: raise ValueError('a')\n            self.fail()",
            "pass",
            "it only fails without numbers",
        ),
    ],
)
def test_failure_that_a_run_need_not_have_is_not_tried(check, initialize, step, text):
    code, message = check(initialize, step)
    assert code == 0, message
    assert message.count("not tried") == 1
    assert text in message


def test_evaluation_that_reads_its_data_does_not_hide_what_fails_in_a_step(project, check):
    project.write(
        "modules/eval/whole.py",
        """
        from jade import Evaluation


        class WholeEvaluation(Evaluation):
            def initialize(self):
                self.data = self.datasets["test"].as_tensors()

            def evaluate(self):
                return 0.0
    """,
    )
    project.write("eval.yml", "Whole: {class: WholeEvaluation}\n")
    code, text = check()
    assert code == 0
    assert "eval.Whole is not built: the dataset 'test' is not read" in text

    code, text = check(step="self.fail()")

    assert (code, "This cannot be run. KeyError: 'b'" in text) == (2, True), text


def test_undeclared_samples_and_sizes_still_let_networks_be_built(check):
    code, text = check(example="")
    assert code == 0
    assert "Points has no example_sample" in text
    assert "3 parameters" in text


def test_constants_of_a_dataset_class_are_known(check):
    code, text = check(
        "assert self.datasets['train'].num_classes == 10",
        example="    num_classes = 10\n" + EXAMPLE,
    )
    assert (code, "not tried" in text) == (0, False)


def test_own_collate_function_and_subsets_are_used(project, check):
    code, text = check(
        "from torch.utils.data import Subset\n"
        "            self.part = Subset(self.datasets['train'], range(4))\n"
        "            collate = lambda items: {k: torch.stack([i[k] for i in items]) for k in items[0]}\n"
        "            loader = DataLoader(self.part, batch_size, collate_fn=collate)\n"
        "            type(self).train_loader = property(lambda self: loader, lambda self, value: None)"
    )
    assert (code, "not tried" in text) == (0, False)


def test_nothing_of_user_code_is_printed_or_left_behind(check):
    import torch
    from torch.distributions import Distribution

    before = (torch.get_rng_state(), Distribution._validate_args)
    code, text = check("print('hello'); import warnings; warnings.warn('careful'); torch.randn(3)")
    assert code == 0
    assert "hello" not in text
    assert torch.equal(torch.get_rng_state(), before[0])
    assert Distribution._validate_args == before[1]
    assert torch.zeros(1).device.type == "cpu"


def test_loader_of_data_in_memory_reads_nothing(check):
    code, text = check("self.other = self.make_loader('train', 4, shuffle=True)")
    assert (code, "not tried" in text) == (0, False)


@pytest.mark.parametrize("model", ["VAE", "VIB"])
def test_examples_are_tried_as_a_whole(monkeypatch, capsys, model):
    from pathlib import Path

    monkeypatch.chdir(Path(__file__).parent.parent)
    code = main(
        [
            *("check", "--epochs=1", f"--model_conf=configurations/models/{model}_digits.yml"),
            "--data_conf=configurations/data/Digits_valid.yml",
            f"--eval_conf=configurations/eval/{model}_simple.yml",
            "--arch_impl=modules/architectures/simple_digits.py",
        ]
    )
    out, err = capsys.readouterr()
    assert code == 0, err
    assert "not tried" not in out


def test_amount_of_what_nothing_counts_is_found(project, arguments, capsys):
    assert main(["check", *arguments[1:], "--train_for=3 parsecs"]) == 2
    assert "'parsecs' is neither a unit nor a counter of LineTrainer" in capsys.readouterr().err
