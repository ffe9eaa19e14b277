"""Facts about the postponed import of torch's compiler, and about importing torchvision.

Each is established in a new process that has imported torch, but neither of the two.
"""

import copy
import importlib
import inspect
import io
import multiprocessing
import os
import pickle
import sys
import threading
import time
import traceback
import types

import pytest
import torch

from jade.errors import ComponentError
from jade.torch_startup import declare_torchvision_ops, defer_dynamo, import_torchvision

CONTEXT = multiprocessing.get_context("forkserver")
OPTIMIZERS = (torch.optim.Adam, torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop)


def in_new_process(function, *args):
    """Return what a function returns in a new process; raise what it raises there."""
    receiver, sender = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_report, args=(sender, function, *args))
    process.start()
    sender.close()
    is_good, result = receiver.recv()
    process.join()
    assert is_good, result
    return result


def _report(sender, function, *args):
    torch.set_num_threads(1)
    try:
        assert "torch._dynamo" not in sys.modules
        sender.send((True, function(*args)))
    except BaseException:
        sender.send((False, traceback.format_exc()))


@pytest.fixture(scope="module", autouse=True)
def _process_with_torch():
    CONTEXT.set_forkserver_preload(["torch", "pytest", "jade.torch_startup"])
    in_new_process(os.getpid)


def is_dynamo_imported():
    return "torch._dynamo.eval_frame" in sys.modules


def train(steps=3):
    """Train with some optimizers, and return the weights as bytes."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    for kind in OPTIMIZERS:
        for foreach in (True, False):
            optimizer = kind(model.parameters(), lr=0.01, foreach=foreach)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            for _ in range(steps):
                optimizer.zero_grad()
                model(torch.randn(3, 4)).square().sum().backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
            optimizer.load_state_dict(optimizer.state_dict())
            optimizer.add_param_group({"params": [torch.zeros(1, requires_grad=True)]})
    return torch.cat([p.detach().flatten() for p in model.parameters()]).numpy().tobytes()


def train_with(postponed):
    started = time.perf_counter()
    assert not postponed or defer_dynamo()
    weights = train()
    return weights, is_dynamo_imported(), time.perf_counter() - started


def test_defer_dynamo_spares_optimizers_the_import():
    _, is_imported, seconds = in_new_process(train_with, True)

    assert not is_imported
    assert seconds < 0.5


@pytest.mark.slow
def test_defer_dynamo_changes_no_weight_and_saves_time():
    weights, is_imported, seconds = in_new_process(train_with, False)
    postponed = in_new_process(train_with, True)

    assert is_imported
    assert postponed[0] == weights
    assert postponed[2] < seconds / 2


def call_twice():
    first = defer_dynamo()
    module = sys.modules["torch._dynamo"]
    train(1)
    return first, defer_dynamo(), sys.modules["torch._dynamo"] is module, is_dynamo_imported()


def test_defer_dynamo_called_twice_changes_nothing():
    assert in_new_process(call_twice) == (True, True, True, False)


def call_too_late():
    module = importlib.import_module("torch._dynamo")
    finders = list(sys.meta_path)
    return defer_dynamo(), torch._dynamo is module, sys.meta_path == finders


@pytest.mark.slow
def test_defer_dynamo_after_the_import_does_nothing():
    assert in_new_process(call_too_late) == (False, True, True)


def call_with_unknown_torch():
    torch._compile._disable_dynamo = lambda function: function
    return defer_dynamo(), "torch._dynamo" in sys.modules


def test_defer_dynamo_with_an_unknown_torch_does_nothing():
    assert in_new_process(call_with_unknown_torch) == (False, False)


def look_around():
    defer_dynamo()
    train(1)
    for module in list(sys.modules.values()):
        getattr(module, "__warningregistry__", None)
        getattr(module, "__wrapped__", None)
    inspect.getmodule(inspect.currentframe())
    torch.compiler.is_compiling()
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    pickle.loads(pickle.dumps(copy.deepcopy(optimizer)))
    torch.save(optimizer.state_dict(), file := io.BytesIO())
    file.seek(0)
    torch.load(file, weights_only=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(torch.zeros(1, 2))
    return is_dynamo_imported()


def test_defer_dynamo_lasts_through_what_does_not_need_the_compiler():
    assert not in_new_process(look_around)


USES = {
    "import submodule": "import torch._dynamo.config as found; assert found is torch._dynamo.config",
    "import rare submodule": "import torch._dynamo.testing",
    "from package": "from torch._dynamo import optimize, config",
    "from submodule": "from torch._dynamo.eval_frame import OptimizedModule",
    "from package all": "from torch._dynamo import *; optimize",
    "kept module": "import torch._dynamo as kept; kept.config; assert kept is torch._dynamo",
    "graph_break": "from torch._dynamo import graph_break",
    "public disable": "import torch; torch.compiler.disable(lambda: None)",
    "list of names": "import torch; assert 'optimize' in dir(torch._dynamo)",
    "set attribute": "import torch; torch._dynamo.mine = 3; assert torch._dynamo.mine == 3",
    "deterministic": "import torch; torch.use_deterministic_algorithms(True)",
}


def use(code):
    defer_dynamo()
    train(1)
    exec(code, {"torch": torch})
    module = sys.modules["torch._dynamo"]
    assert is_dynamo_imported()
    assert type(module) is types.ModuleType
    assert torch._dynamo is module
    assert not [finder for finder in sys.meta_path if type(finder).__module__.startswith("jade")]
    for name, submodule in list(sys.modules.items()):
        if name.startswith("torch._dynamo"):
            assert submodule.__spec__.name == name
            assert type(submodule.__spec__.loader).__name__ == "SourceFileLoader", name
    for name in ("config", "eval_frame", "backends"):
        assert getattr(module, name) is sys.modules[f"torch._dynamo.{name}"]
    assert torch._dynamo.eval_frame.config is torch._dynamo.config
    assert not hasattr(module, "no_such_name")


@pytest.mark.slow
@pytest.mark.parametrize("kind", USES)
def test_defer_dynamo_ends_when_the_compiler_is_used(kind):
    in_new_process(use, USES[kind])


def compile_things(postponed):
    """Return what the compiler makes of a model, of an optimizer's step, of a disabled function."""
    if postponed:
        defer_dynamo()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    graphs = []

    def record(graph, inputs):
        graphs.append(len(list(graph.graph.nodes)))
        return graph.forward

    compiled = torch.compile(model, backend=record)
    compiled(torch.ones(2, 4)).sum().backward()
    step = torch.compile(optimizer.step, backend=record)
    step()
    torch.compile(optimizer.zero_grad, backend=record)()
    disabled = torch.compiler.disable(lambda x: x + 1)
    torch.compile(lambda x: disabled(x * 2) * 3, backend=record)(torch.ones(1))
    weights = torch.cat([p.detach().flatten() for p in model.parameters()]).numpy().tobytes()
    # Compiled or not, torch must now have what the real package returned.
    wrapped = torch.optim.Optimizer.zero_grad.__wrapped__
    return graphs, weights, vars(wrapped)["__dynamo_disable"] is wrapped


@pytest.mark.slow
def test_defer_dynamo_leaves_torch_compile_as_it_is():
    postponed, plain = (in_new_process(compile_things, flag) for flag in (True, False))

    assert postponed == plain
    assert len(plain[0]) >= 3
    assert not plain[2]


def use_in_threads():
    defer_dynamo()
    train(1)
    barrier = threading.Barrier(4)
    found = []

    def work(number):
        barrier.wait()
        if number % 2:
            found.append(torch._dynamo.optimize)
        else:
            from torch._dynamo import optimize

            found.append(optimize)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return len(found), len(set(map(id, found)))


@pytest.mark.slow
def test_defer_dynamo_ends_once_for_all_threads():
    assert in_new_process(use_in_threads) == (4, 1)


def fail_and_repeat():
    defer_dynamo()
    names = set(vars(torch._dynamo))
    sys.modules["sympy"] = None
    with pytest.raises(ImportError):
        torch._dynamo.config  # noqa: B018
    train(1)
    assert set(vars(torch._dynamo)) == names
    assert type(torch._dynamo.__spec__.loader).__name__ == "SourceFileLoader"
    del sys.modules["sympy"]
    with pytest.raises(AttributeError):
        torch._dynamo.no_such_name  # noqa: B018
    assert type(torch._dynamo.__spec__.loader).__name__ == "SourceFileLoader"
    return is_dynamo_imported(), type(torch._dynamo) is types.ModuleType


@pytest.mark.slow
def test_defer_dynamo_survives_an_import_that_fails():
    assert in_new_process(fail_and_repeat) == (True, True)


def train_in_child(method):
    defer_dynamo()
    context = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_training, args=(sender,))
    process.start()
    weights = receiver.recv()
    process.join()
    return weights == train(), process.exitcode


def _send_training(sender):
    sender.send(train())


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_defer_dynamo_leaves_child_processes_working(method):
    assert in_new_process(train_in_child, method) == (True, 0)


def start_distributed(path):
    defer_dynamo()
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=0, world_size=1)
    tensor = torch.ones(1)
    torch.distributed.all_reduce(tensor)
    torch.distributed.destroy_process_group()
    return tensor.item()


@pytest.mark.slow
def test_defer_dynamo_leaves_distributed_training_working(tmp_path):
    assert in_new_process(start_distributed, str(tmp_path / "store")) == 1


needs_torchvision = pytest.mark.skipif(
    importlib.util.find_spec("torchvision") is None, reason="torchvision is not installed"
)


def import_from_torchvision(postponed):
    if postponed:
        defer_dynamo()
    datasets = import_torchvision("torchvision.datasets")
    torchvision = import_torchvision()
    transform = import_torchvision("torchvision.transforms").Normalize(0.5, 0.5)
    model = torchvision.models.resnet18(num_classes=3)
    assert torchvision.datasets is datasets is sys.modules["torchvision.datasets"]
    assert model(transform(torch.zeros(2, 3, 32, 32))).shape == (2, 3)
    assert import_torchvision("torchvision.datasets") is datasets
    parts = [name.split(".") for name in sys.modules if name.startswith("torchvision.")]
    assert all(hasattr(torchvision, part[1]) for part in parts)
    return is_dynamo_imported(), "torch._dynamo.utils" in sys.modules


@needs_torchvision
@pytest.mark.slow
def test_import_torchvision_gives_datasets_transforms_and_models():
    assert in_new_process(import_from_torchvision, False) == (True, True)


@needs_torchvision
@pytest.mark.slow
def test_import_torchvision_does_not_import_the_compiler_while_that_is_postponed():
    assert in_new_process(import_from_torchvision, True) == (False, False)


def align_regions(postponed):
    if postponed:
        defer_dynamo()
    ops = import_torchvision("torchvision.ops")
    is_imported = is_dynamo_imported()
    roi_align = sys.modules["torchvision.ops.roi_align"]
    assert roi_align.is_compile_supported("cpu") in (True, False)
    assert roi_align.is_compile_supported is torch._dynamo.utils.is_compile_supported
    return is_imported, ops.boxes.__name__


@needs_torchvision
@pytest.mark.slow
def test_import_torchvision_gets_the_compiler_when_it_needs_it():
    assert in_new_process(align_regions, True) == (False, "torchvision.ops.boxes")


def use_utils_while_torchvision_is_imported():
    """Stand for another thread that needs the compiler just then."""
    defer_dynamo()
    folder = types.ModuleType("torchvision")
    folder.__path__ = []

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "torchvision.needy":
                from torch._dynamo.utils import counters  # noqa: F401

    sys.modules["torchvision"] = folder
    sys.meta_path.insert(0, Finder)
    with pytest.raises(ModuleNotFoundError, match="needy"):
        import_torchvision("torchvision.needy")
    sys.meta_path.remove(Finder)
    return hasattr(sys.modules["torch._dynamo.utils"], "counters")


@pytest.mark.slow
def test_import_torchvision_leaves_the_compiler_usable_meanwhile():
    assert in_new_process(use_utils_while_torchvision_is_imported)


def import_missing(name):
    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "torchvision":
                raise ModuleNotFoundError("No module named 'torchvision'", name=name)

    sys.meta_path.insert(0, Finder)
    try:
        import_torchvision(name)
    except ComponentError as error:
        return str(error)


@pytest.mark.parametrize("name", ["torchvision", "torchvision.datasets"])
def test_import_torchvision_that_is_missing_says_how_to_install_it(name):
    message = in_new_process(import_missing, name)

    assert message.startswith(f"{name} cannot be imported: torchvision is not installed.")
    assert "pip install 'jade-trainer[vision]'" in message


def import_other(folder, text):
    """Import another package of that name, and return the error, or what was imported with it."""
    package = folder / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text(text)
    sys.path.insert(0, str(folder))
    defer_dynamo()
    try:
        import_torchvision()
    except Exception as error:
        return type(error).__name__, str(error), hasattr(torch.ops.torchvision, "nms")
    return is_dynamo_imported(), "torch._dynamo.utils" in sys.modules


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("raise RuntimeError('something else')", ("RuntimeError", "something else")),
        ("import no_such_package", ("ModuleNotFoundError", "No module named 'no_such_package'")),
    ],
)
def test_import_torchvision_that_fails_otherwise_raises_its_own_error(tmp_path, text, error):
    assert in_new_process(import_other, tmp_path, text) == (*error, False)


def test_import_torchvision_that_works_at_once_does_not_import_the_compiler(tmp_path):
    text = "from torch._dynamo.utils import is_compile_supported"

    assert in_new_process(import_other, tmp_path, text) == (False, False)


def declare_twice():
    declare_torchvision_ops()
    declare_torchvision_ops()
    return str(torch.ops.torchvision.nms.default._schema)


def test_declare_torchvision_ops_declares_them_once():
    schema = in_new_process(declare_twice)

    assert schema.startswith("torchvision::nms(Tensor dets, Tensor scores, float iou_threshold)")
