import numpy as np
import pytest

from jade.media import Media, write
from jade.run_dir import RunDir
from jade.saved_media import list_media


@pytest.mark.parametrize("name", ["Show/plain", "a b@0.5/ü%", "..", "x//y", "dots...", "Show"])
def test_name_and_step_survive_the_way_through_the_folder(tmp_path, name):
    run = RunDir(tmp_path)
    path = write(Media("text", "hello"), run.evaluation(name, 120))
    (found,) = list_media(run)
    assert (found.name, found.step, found.path) == (name, 120, path)
    assert found.load() == Media("text", "hello")


def test_kinds_are_known_by_their_files(tmp_path):
    run = RunDir(tmp_path)
    table = {"columns": ["name", "n", "share", "none"], "rows": [["cat", 3, 0.5, None]]}
    for media in (
        Media("image", np.zeros((2, 2))),
        Media("histogram", [1.0, 2.0]),
        Media("table", table),
        Media("audio", np.zeros(10), sample_rate=8000),
    ):
        write(media, run.evaluation(media.kind, 1))
    found = {item.name: item.load() for item in list_media(run)}
    assert {name: media.kind for name, media in found.items()} == {name: name for name in found}
    assert found["table"].value == table
    assert found["audio"].sample_rate == 8000


def test_media_come_by_step_and_other_files_are_left_out(tmp_path):
    run = RunDir(tmp_path)
    for name, step in (("b", 2), ("a", 2), ("c", 1)):
        write(Media("text", name), run.evaluation(name, step))
    (run.evaluations / "c" / "notes.txt").write_text("mine")
    (run.evaluations / "c" / "00000001.xyz").write_text("mine")
    assert [(item.step, item.name) for item in list_media(run)] == [(1, "c"), (2, "a"), (2, "b")]
    assert list_media(RunDir(tmp_path / "nowhere")) == []
