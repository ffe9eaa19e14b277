import pytest

from jade.check import find_problems, find_problems_here
from jade.cli import main
from jade.config import Sources, collect
from jade.errors import ConfigError
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


def problems(look=find_problems, **arguments):
    given = {**ARGUMENTS, **arguments}
    overrides = [
        Override(k, v, Origin(f"argument --{k}")) for k, v in given.items() if v is not None
    ]
    try:
        resolve(collect(Sources(arguments=overrides)), look_further=look)
    except ConfigError as error:
        return list(error.texts)
    return []


def test_good_project_has_no_problems(project):
    assert problems() == []


def test_checking_builds_no_data(project):  # C16, K6
    project.write("data.yml", "train: {class: Broken}\ntest: {class: Broken}\n")

    assert problems() == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"stop_when": "Error below 1"},
            "stop_when (argument --stop_when): 'Error below 1' is not a test",
        ),
        (
            {"device": "cdua"},
            "device (argument --device): 'cdua' is no device. Did you mean 'cuda'? "
            "Known: auto, cpu, cuda, cuda:1, mps.",
        ),
        ({"device": "gpu"}, "device (argument --device): 'gpu' is no device. Did you mean 'cuda'?"),
        (
            {"experiments_root": "model.yml/runs"},
            "experiments_root (argument --experiments_root): model.yml/runs cannot be made",
        ),
        (
            {"arch_impl": "smal"},
            "arch_impl (argument --arch_impl): there is no file smal. Did you mean 'small'?",
        ),
        (
            {"arch_impl": None},
            "LineTrainer builds the architecture 'Net': give --arch_impl FILE.py.",
        ),
    ],
)
def test_wrong_setting_is_found(project, arguments, text):
    (problem,) = problems(**arguments)

    assert problem.startswith(text)


@pytest.mark.parametrize("name", ["cdua", "cuda:7"])
def test_run_that_starts_here_needs_its_device_here(project, name):
    (problem,) = problems(find_problems_here, device=name)

    assert problem.startswith(f"device (argument --device): {name!r} is no")


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
        "arch_impl (argument --arch_impl): modules/architectures/small.py has no class 'Net'. "
        "Did you mean 'Nett'? Known: Nett."
    ]


def test_wrong_keyword_of_an_architecture_is_found(project):  # K16
    project.write(
        "modules/architectures/small.py", "class Net:\n    def __init__(self, num_out): ...\n"
    )

    assert problems() == [
        "arch_impl (argument --arch_impl): Net(num_out) in modules/architectures/small.py takes no 'n_out'. "
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


@pytest.mark.parametrize("command", ["check", "train"])
def test_problems_of_all_kinds_come_in_one_message(project, arguments, capsys, command):
    project.write("eval.yml", "Error:\n  class: SquaredError\n  params:\n    evaluate_on: tset\n")
    assert main([command, *arguments[1:], "--model.params.lrr=1", "--device=cudda"]) == 2
    message = capsys.readouterr().err
    assert "3 problems" in message
    assert "no 'lrr'" in message
    assert "'cudda' is no device. Did you mean 'cuda'?" in message
    assert "there is no dataset 'tset'. Did you mean 'test'?" in message
    assert not (project.root / "experiments").exists()


EVERYTHING = """
    model:
      class: LineTrainr
      params: {lr: $UNKNOWN}
    data:
      train: {class: Points, params: {sed: 1}}
      test: {class: Pionts}
    eval:
      E: {class: SquaredError, params: {evaluate_on: tset}, evry: 2}
      F: {class: SquaredError, params: {evaluate_on: test, n_samples: many}}
    arch_impl: missing.py
    experiments_root: run.yml/runs
    device: cudda
    epochs: ten
    best_metric: G
    stop_when: E under 1
    keep_last: 0
    patiense: 3
"""
FOUND = [
    "--eval_conf: missing.yml does not exist.",
    "broken.yml:1: mapping values are not allowed here.",
    "epochs (run.yml:14): expected int or null, not 'ten'.",
    "patiense (run.yml:18): unknown key. Did you mean 'patience'?",
    "keep_last (run.yml:17): must be at least 1, got 0.",
    "model.class (run.yml:3): There is no class 'LineTrainr' in modules, torch or torchvision. "
    "Did you mean 'LineTrainer'? Known: LineTrainer (modules/models/line.py).",
    "data.train.params.sed (run.yml:6): Points(n: int = 10, seed: int = 0) takes no 'sed'.",
    "data.test.class (run.yml:7): There is no class 'Pionts' in modules, torch or torchvision. "
    "Did you mean 'Points'? Known: Broken (modules/data/points.py), Points (",
    "eval.E.evry (run.yml:9): unknown key.",
    "eval.F.params.n_samples (run.yml:10): expected int or null, not 'many'.",
    "best_metric (run.yml:15): no evaluation logs 'G'.",
    "experiments_root (run.yml:12): run.yml/runs cannot be made",
    "stop_when (run.yml:16): 'E under 1' is not a test.",
    "device (run.yml:13): 'cudda' is no device. Did you mean 'cuda'?",
    "eval.E.params.evaluate_on (run.yml:9): there is no dataset 'tset'. Did you mean 'test'?",
    "arch_impl (run.yml:11): there is no file missing.py.",
    "1 environment variable is not set:\n    UNKNOWN for model.params.lr (run.yml:4).",
]


@pytest.mark.parametrize("look", [find_problems, find_problems_here])
def test_all_problems_of_a_run_come_at_once_with_their_places(project, look):
    """No kind of mistake hides another one; nothing is said that is not known."""
    project.write("run.yml", EVERYTHING)
    nothing = dict.fromkeys(ARGUMENTS)

    found = problems(look, **nothing, config=["run.yml"])
    expected = [text for text in FOUND if "missing.yml" not in text and "broken" not in text]

    assert len(found) == len(expected)
    for text, start in zip(found, expected, strict=True):
        assert text.startswith(start)


def test_unreadable_files_hide_nothing_but_what_would_stand_in_them(project):
    project.write("run.yml", EVERYTHING)
    project.write("broken.yml", "a: b: c\n")
    given = {**dict.fromkeys(ARGUMENTS), "eval_conf": "missing.yml"}

    found = problems(**given, config=["run.yml", "broken.yml"])
    # What these refer to might be in the files that cannot be read.
    unknown = ("best_metric", "eval.E.params.evaluate_on")
    expected = [text for text in FOUND if not text.startswith(unknown)]

    assert len(found) == len(expected)
    assert all(any(text.startswith(start) for text in found) for start in expected)


def test_missing_files_of_a_run_come_at_once(project):
    found = problems(model_conf="a.yml", data_conf="b.yml", eval_conf="c.yml", best_metric="E")

    assert [text.partition(".yml")[0] for text in found] == [
        "--model_conf: a",
        "--data_conf: b",
        "--eval_conf: c",
    ]


def test_missing_file_is_named_where_it_was_written(project):
    project.write("run.yml", "epochs: 1\nenv_file: no.env\nmodel_conf: no.yml\n")

    found = problems(model_conf=None, config=["run.yml"])

    assert found[0].startswith("env_file (run.yml:2): no.env does not exist")
    assert found[1].startswith("model_conf (run.yml:3): no.yml does not exist")
    assert len(found) == 2


def test_missing_env_file_is_not_also_said_of_each_variable(project):
    project.write("model.yml", "class: LineTrainer\nparams: {lr: $IN_THAT_FILE}\n")

    (found,) = problems(env_file="no.env")

    assert "no.env" in found


def test_missing_folder_of_modules_hides_only_what_classes_tell(project):
    project.write("model.yml", "class: LineTrainer\nparams: {lr: $UNKNOWN, other: 1}\n")

    found = problems(modules=["moduls"], device="cudda", **{"model.params.more": 2})

    assert [text.partition(" ")[0] for text in found] == ["modules", "device", "1"]


def test_architecture_file_that_python_cannot_read_is_found_whatever_the_trainer(project):
    project.write("model.yml", "class: LineTrainr\n")
    project.write("modules/architectures/small.py", "class Net(\n")

    found = problems()

    assert "Not read: modules/architectures/small.py:1" in found[0]
    assert found[1].startswith(
        "arch_impl (argument --arch_impl): modules/architectures/small.py:1: "
    )


def test_weights_on_wandb_are_not_asked_for_in_a_check(project):  # C16: without network
    assert problems(load="entity/project/abcdefgh") == []
    assert "no run" in problems(load="abcdefgh")[0]


EVALUATIONS = """
    from matplotlib.figure import Figure
    from jade import DatasetEvaluation, Evaluation, Media


    class SquaredError(DatasetEvaluation):
        def evaluate_batch(self, data):
            return {"a": 1.0, "b": 2.0}


    class Shown(Evaluation):
        def evaluate(self)HINT:
            if self.trainer.iterations < 0:
                raise ValueError("never")
            BODY
"""


def shown(project, body, hint=""):
    text = EVALUATIONS.replace("BODY", body).replace("HINT", hint)
    project.write("modules/eval/errors.py", text)
    project.write(
        "eval.yml",
        "Error: {class: SquaredError, params: {evaluate_on: test}}\nShown: {class: Shown}\n",
    )


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("return {'type': 'figure', 'value': Figure()}", "figure"),
        ("return Media('image', self.picture())", "media"),
        ("return f'{self.name}'", "text"),
        ("self.last = 1", "nothing"),
        ("return None if self.off else None", None),
        ("return self.off or 'text'", None),
        ("return {'type': 'scalar', 'value': 1.0}", None),
        ("return {'a': 1.0}", None),
        ("yield 1", None),
        ("return [(lambda: 'inner')() for _ in range(3)]", None),
    ],
)
@pytest.mark.parametrize("setting", ["best_metric", "stop_when"])
def test_metric_of_an_evaluation_that_returns_no_number_is_found(project, body, what, setting):
    shown(project, body)

    found = problems(**{setting: "Shown" if setting == "best_metric" else "Shown < 1"})

    assert found == (
        []
        if what is None
        else [
            f"{setting} (argument --{setting}): 'Shown' is no number, Shown.evaluate returns "
            f"{what}. Known: Error."
        ]
    )


@pytest.mark.parametrize(("hint", "num"), [(" -> Figure", 1), (" -> 'str'", 1), (" -> float", 0)])
def test_what_an_evaluation_says_that_it_returns_counts(project, hint, num):
    shown(project, "return self.measure()", hint)

    assert len(problems(best_metric="Shown")) == num


@pytest.mark.parametrize(
    ("metric", "is_found"), [("Error", False), ("Error/b", False), ("Error/c", True)]
)
def test_check_compares_the_metric_with_what_a_batch_gives(
    project, arguments, capsys, metric, is_found
):
    source = (project.root / "modules/data/points.py").read_text()
    sample = "    example_sample = {'x': torch.zeros(2), 'y': torch.zeros(1)}\n"
    project.write("modules/data/points.py", source.replace("Dataset):\n", f"Dataset):\n{sample}"))
    shown(project, "return self.measure()")

    code = main(["check", *arguments[1:], f"--best_metric={metric}"])

    assert code == (2 if is_found else 0)
    text = f"best_metric (argument --best_metric): nothing logs '{metric}'. Did you mean 'Error/"
    assert (text in capsys.readouterr().err) == is_found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("eval: {epoch: {class: SquaredError, params: {evaluate_on: test}}}", "eval.epoch (run."),
        ("resume: nowhere", "resume (run.yml:1): There is no run 'nowhere'"),
        ("best_metric: ${M:-Nothing}", "best_metric (run.yml:1): no evaluation logs 'Nothing'."),
        ("best_metric: 3", "best_metric (run.yml:1): no evaluation logs '3'."),
    ],
)
def test_what_would_fail_once_the_run_is_built_is_found(project, text, found):
    project.write("run.yml", f"{text}\n")

    (problem,) = problems(config=["run.yml"])

    assert problem.startswith(found)


def test_part_that_only_arguments_have_made_is_named_by_them(project):
    (problem,) = problems(**{"eval.New.class": "SquaredError"})

    assert problem.startswith("eval.New.params (argument --eval.New.class): SquaredError.init")


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        (
            "models/line.py",
            "def train_step(self, data)",
            "def train_step(self)",
            "LineTrainer.train_step(self) must be train_step(self, data).",
        ),
        (
            "eval/errors.py",
            "def evaluate_batch(self, data)",
            "def evaluate_batch(self, x, y)",
            "SquaredError.evaluate_batch(self, x, y) must be evaluate_batch(self, data).",
        ),
        ("eval/errors.py", "def evaluate_batch(self, data)", "def evaluate_batch(*all)", None),
        (
            "models/line.py",
            "    def train_step(self, data)",
            "    @staticmethod\n    def train_step(data)",
            None,
        ),
        (
            "eval/errors.py",
            "    def evaluate_batch(self, data)",
            "    def fed(inner):\n"
            "        import functools\n\n"
            "        return functools.wraps(inner)(lambda self, data: inner(self, data, 1))\n\n"
            "    @fed\n"
            "    def evaluate_batch(self, data, weight)",
            None,
        ),
    ],
)
def test_method_that_takes_other_arguments_is_found(project, file, old, new, told):
    source = (project.root / "modules" / file).read_text()
    assert old in source
    project.write(f"modules/{file}", source.replace(old, new))

    assert problems() == ([] if told is None else [told])
