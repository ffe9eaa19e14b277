import pytest

from jade.check import find_problems
from jade.cli import main
from jade.config import Sources, load
from jade.origin import Origin
from jade.overrides import Override
from jade.resolve import resolve

ARGUMENTS = {
    "model_conf": "model.yml",
    "data_conf": "data.yml",
    "eval_conf": "eval.yml",
    "arch_impl": "modules/architectures/small.py",
    "epochs": 1,
}


def problems(**arguments):
    given = {**ARGUMENTS, **arguments}
    overrides = [
        Override(k, v, Origin(f"argument --{k}")) for k, v in given.items() if v is not None
    ]
    return find_problems(resolve(load(Sources(arguments=overrides))))


def test_good_project_has_no_problems(project):
    assert problems() == []


def test_checking_builds_no_data(project):  # C16, K6
    project.write("data.yml", "train: {class: Broken}\ntest: {class: Broken}\n")

    assert problems() == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"stop_when": "Error below 1"}, "stop_when: 'Error below 1' is not a test"),
        ({"device": "cdua"}, "device (argument --device): no such device. Did you mean 'cuda'?"),
        ({"device": "gpu"}, "device (argument --device): no such device. Did you mean 'cuda'?"),
        ({"experiments_root": "model.yml/runs"}, "experiments_root: model.yml/runs cannot be made"),
        ({"arch_impl": "smal"}, "arch_impl: there is no file smal. Did you mean 'small'?"),
        (
            {"arch_impl": None},
            "LineTrainer builds the architecture 'Net': give --arch_impl FILE.py.",
        ),
    ],
)
def test_wrong_setting_is_found(project, arguments, text):
    (problem,) = problems(**arguments)

    assert problem.startswith(text)


def test_device_of_another_machine_is_no_problem(project):  # C16: without GPU
    assert problems(device="cuda:7", stop_when="Error < 0.1") == []


def test_unknown_dataset_of_an_evaluation_is_found(project):
    project.write("eval.yml", "E: {class: SquaredError, params: {evaluate_on: tset}}\n")

    assert problems() == [
        "eval.E.params.evaluate_on (eval.yml:1): there is no dataset 'tset'. "
        "Did you mean 'test'? Known: test, train."
    ]


def trainer(project, body, base="Trainer"):
    project.write(
        "modules/models/line.py",
        f"from jade import Trainer\n\n\nclass LineTrainer({base}):\n{body}",
    )
    project.write("model.yml", "class: LineTrainer\n")


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (
            "    def initialize(self): ...\n    def trian_step(self, data): ...\n",
            ["LineTrainer must define train_step(self, ...). Is 'trian_step' meant to be it?"],
        ),
        (
            "    def __init__(self, lr=1): ...\n    def train_step(self, data): ...\n",
            [
                "LineTrainer must define initialize(self, ...). "
                "Its parameters come to initialize(self, ...), not to __init__."
            ],
        ),
        (
            "    pass\n",
            [
                "LineTrainer must define initialize(self, ...).",
                "LineTrainer must define train_step(self, ...).",
            ],
        ),
    ],
)
def test_missing_method_of_a_trainer_is_found(project, body, found):
    trainer(project, body)

    assert problems() == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "class SquaredError(DatasetEvaluation):\n    def evalute_batch(self, data): ...\n",
            [
                "SquaredError must define evaluate_batch(self, ...). Is 'evalute_batch' meant to be it?"
            ],
        ),
        (
            "class SquaredError(DatasetEvaluation):\n    def evaluate(self): ...\n",
            [],
        ),
        (
            "class SquaredError(Evaluation):\n    def initialize(self, evaluate_on): ...\n",
            ["SquaredError must define evaluate(self, ...)."],
        ),
    ],
)
def test_missing_method_of_an_evaluation_is_found(project, text, found):
    project.write(
        "modules/eval/errors.py", f"from jade.eval import DatasetEvaluation, Evaluation\n{text}"
    )

    assert problems() == found


def test_trainer_without_architectures_needs_no_file(project):  # K5
    trainer(project, "    def initialize(self): ...\n    def train_step(self, data): ...\n")

    assert problems(arch_impl=None) == []


def test_architecture_file_without_the_class_is_found(project):
    project.write("modules/architectures/small.py", "class Nett: pass\n")

    assert problems() == [
        "arch_impl: modules/architectures/small.py has no class 'Net'. "
        "Did you mean 'Nett'? Known: Nett."
    ]


def test_wrong_keyword_of_an_architecture_is_found(project):  # K16
    project.write(
        "modules/architectures/small.py", "class Net:\n    def __init__(self, num_out): ...\n"
    )

    assert problems() == [
        "arch_impl: Net(num_out) in modules/architectures/small.py takes no 'n_out'. "
        "Did you mean 'num_out'? Known: num_out."
    ]


def test_architecture_that_takes_anything_is_fine(project):
    project.write(
        "modules/architectures/small.py", "class Net:\n    def __init__(self, **more): ...\n"
    )

    assert problems() == []


def test_architectures_of_parent_classes_are_checked(project):
    trainer(project, "    def train_step(self, data): ...\n", base="Base")
    project.write(
        "modules/models/line.py",
        """
        from jade import Trainer


        class Base(Trainer):
            def initialize(self):
                self.net = self.instantiate_architecture("Missing")
                name = "computed"
                self.other = self.instantiate_architecture(name)


        class LineTrainer(Base):
            def train_step(self, data): ...
        """,
    )

    (problem,) = problems()

    assert "has no class 'Missing'" in problem


def test_trainer_without_source_is_taken_as_it_is(project):
    project.write(
        "modules/models/line.py",
        "from jade import Trainer\n"
        "class LineTrainer(Trainer):\n"
        "    exec('def initialize(self): ...')\n"
        "    def train_step(self, data): ...\n"
        "LineTrainer.__module__ = 'elsewhere'\n",
    )
    project.write("model.yml", "class: LineTrainer\n")

    assert problems() == []


def test_problems_of_names_and_of_references_come_in_one_message(project, arguments, capsys):
    project.write("eval.yml", "Error:\n  class: SquaredError\n  params:\n    evaluate_on: tset\n")
    assert main(["check", *arguments[1:], "--model.params.lrr=1"]) == 2
    message = capsys.readouterr().err
    assert "2 problems" in message
    assert "no 'lrr'" in message
    assert "there is no dataset 'tset'. Did you mean 'test'?" in message
