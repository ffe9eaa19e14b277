"""What `jade.media` writes is read back with other programs' readers."""

import csv
import gc
import json
import logging
import wave
import weakref

import numpy as np
import pytest
import torch
from PIL import Image

from jade import media as media_module
from jade.errors import ConfigError
from jade.media import KINDS, Media, to_grid, to_histogram, to_picture, to_table, write


@pytest.fixture
def pyplot():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


def pixels(path):
    with Image.open(path) as picture:
        return np.asarray(picture)


def small_figure(plt):
    figure, axes = plt.subplots(figsize=(1, 1), dpi=40)
    axes.plot([1, 2])
    return figure


def test_media_unknown_kind_is_refused_with_a_suggestion():
    with pytest.raises(ConfigError, match=r"no kind 'figre'.* Did you mean 'figure'"):
        Media("figre", None)


def test_media_audio_without_sample_rate_is_refused():
    with pytest.raises(ConfigError, match="sample_rate"):
        Media("audio", [0.0])


EXAMPLES = {
    "image": (np.zeros((2, 2)), ".png"),
    "images": ([np.zeros((2, 2))], ".png"),
    "histogram": ([1, 2], ".json"),
    "table": ([{"a": 1}], ".csv"),
    "text": ("hello", ".txt"),
    "audio": ([0.0, 1.0], ".wav"),
}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_write_each_kind_adds_its_extension_and_nothing_else(tmp_path, kind):
    value, extension = EXAMPLES[kind]

    path = write(Media(kind, value, sample_rate=8000), tmp_path / "new" / "accuracy@0.5")

    assert path == tmp_path / "new" / f"accuracy@0.5{extension}"
    assert list(path.parent.iterdir()) == [path]


def test_write_examples_cover_all_kinds():
    assert {*EXAMPLES, "figure"} == set(KINDS)


class HalfFigure:
    """Fails in the middle of writing, as a full disk does."""

    def savefig(self, path, **options):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")


def test_write_failing_halfway_keeps_the_old_file(tmp_path):
    (tmp_path / "plot.png").write_bytes(b"old")

    with pytest.raises(OSError, match="No space"):
        write(Media("figure", HalfFigure()), tmp_path / "plot")

    assert [path.name for path in tmp_path.iterdir()] == ["plot.png"]
    assert (tmp_path / "plot.png").read_bytes() == b"old"


def test_write_figure_makes_a_picture_and_closes_it(tmp_path, pyplot):
    path = write(Media("figure", small_figure(pyplot)), tmp_path / "plot")

    assert pixels(path).shape == (40, 40, 4)
    assert pyplot.get_fignums() == []


def test_write_closes_the_figure_of_what_only_has_one(tmp_path, pyplot):
    class Grid:
        def __init__(self):
            self.figure = small_figure(pyplot)
            self.savefig = self.figure.savefig

    path = write(Media("figure", Grid()), tmp_path / "plot")

    assert pixels(path).shape == (40, 40, 4)
    assert pyplot.get_fignums() == []


def test_write_figure_that_cannot_be_written_is_closed_too(tmp_path, pyplot):
    (tmp_path / "file").write_text("")

    with pytest.raises(FileExistsError):
        write(Media("figure", small_figure(pyplot)), tmp_path / "file" / "plot")

    assert pyplot.get_fignums() == []


def test_write_figure_without_pyplot_works(tmp_path):
    from matplotlib.figure import Figure

    assert pixels(write(Media("figure", Figure((1, 1), dpi=30)), tmp_path / "f")).shape[0] == 30


def test_write_figure_of_another_type_names_it(tmp_path):
    with pytest.raises(ConfigError, match="matplotlib Figure, not list"):
        write(Media("figure", []), tmp_path / "plot")


def test_write_many_figures_keeps_none_in_memory(tmp_path, pyplot):
    references = []
    for _ in range(10):
        figure = small_figure(pyplot)
        references.append(weakref.ref(figure))
        write(Media("figure", figure), tmp_path / "plot")
    del figure
    gc.collect()

    assert [reference() for reference in references] == [None] * 10


@pytest.mark.slow
def test_write_thousand_figures_takes_constant_memory(tmp_path, pyplot):
    import resource

    def write_figures(count):
        for _ in range(count):
            # Without axes, which take most of the time that a figure takes.
            write(Media("figure", pyplot.figure(figsize=(1, 1), dpi=40)), tmp_path / "plot")
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    after_200 = write_figures(200)
    after_1000 = write_figures(800)

    assert after_1000 - after_200 < 20_000  # kilobytes; one open figure keeps about 100


RAMP = np.array([[0.0, 0.5, 1.0], [1.0, 0.0, 0.5]])
RAMP_BYTES = [[0, 128, 255], [255, 0, 128]]


@pytest.mark.parametrize(
    "value",
    [
        RAMP,
        torch.tensor(RAMP),
        torch.tensor(RAMP, requires_grad=True),
        torch.tensor(RAMP)[None],
        RAMP[:, :, None],
        torch.tensor(RAMP, dtype=torch.bfloat16),
        np.array(RAMP_BYTES, dtype=np.uint8),
        np.array(RAMP_BYTES),
        RAMP.tolist(),
        Image.fromarray(np.array(RAMP_BYTES, dtype=np.uint8)),
    ],
)
def test_image_gray_of_any_type_gives_the_same_pixels(tmp_path, value):
    assert pixels(write(Media("image", value), tmp_path / "i")).tolist() == RAMP_BYTES


def test_image_color_first_or_last_gives_the_same_pixels():
    red = np.zeros((4, 5, 3))
    red[:, :, 0] = 1

    last = np.asarray(to_picture(red))
    first = np.asarray(to_picture(torch.tensor(red).permute(2, 0, 1)))

    assert last.shape == (4, 5, 3)
    assert np.array_equal(last, first)
    assert last[0, 0].tolist() == [255, 0, 0]


def test_image_of_three_by_three_by_three_follows_the_habit_of_its_library():
    cube = np.zeros((3, 3, 3))
    cube[0] = 1

    assert np.asarray(to_picture(torch.tensor(cube)))[:, :, 0].min() == 255
    assert np.asarray(to_picture(cube))[0].min() == 255
    assert np.asarray(to_picture(cube))[1].max() == 0


def test_image_of_booleans_is_black_and_white():
    assert np.asarray(to_picture(np.array([[True, False]]))).tolist() == [[255, 0]]


def test_image_with_nan_and_infinity_is_still_drawn():
    drawn = to_picture(np.array([[np.nan, np.inf, -np.inf, 1.0]]))
    assert np.asarray(drawn).tolist() == [[0, 255, 0, 255]]


def test_image_outside_the_range_is_clipped_and_said_once(caplog):
    media_module._warn_clipped.cache_clear()
    with caplog.at_level(logging.WARNING):
        first = to_picture(np.array([[-1.0, 1.0]]))
        to_picture(np.array([[0.0, 7.0]]))

    assert np.asarray(first).tolist() == [[0, 255]]
    assert [record.getMessage() for record in caplog.records] == [
        "An image has values outside 0..1; they were clipped (said once)."
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((5, 6, 7)), "not 5x6x7"),
        (np.zeros(4), "not 4"),
        (np.float64(1), "not a single number"),
        (np.zeros((0, 3)), "no pixels"),
        (np.array([["a"]]), "floats in 0..1 or uint8"),
    ],
)
def test_image_of_wrong_shape_or_type_is_refused(value, message):
    with pytest.raises(ConfigError, match=message):
        to_picture(value)


def test_image_palette_picture_becomes_colors():
    assert to_picture(Image.new("P", (2, 2))).mode == "RGB"


def test_grid_of_tiny_pictures_is_large_and_sharp():
    digits = torch.zeros(10, 1, 8, 8)
    digits[1] = 1
    digits[2, 0, 0, 0] = 1

    grid = np.asarray(to_grid(digits))

    assert grid.shape[1] >= 256
    assert set(np.unique(grid)) == {0, 128, 255}
    scale = (grid.shape[1] - 2) // 4 // 8
    size = 8 * scale
    assert grid[2 : 2 + size, 2 : 2 + size].max() == 0
    assert grid[2 : 2 + size, 4 + size : 4 + 2 * size].min() == 255
    third = grid[2 : 2 + size, 6 + 2 * size : 6 + 3 * size]
    assert third[:scale, :scale].min() == 255
    assert third[scale:].max() == 0


def test_grid_of_large_pictures_is_not_enlarged():
    assert to_grid(np.zeros((4, 300, 200))).size == (2 * 202 + 2, 2 * 302 + 2)


def test_grid_mixes_sizes_and_colors():
    grid = to_grid([np.zeros((4, 4)), np.ones((8, 2, 3)), Image.new("RGBA", (3, 3))])
    assert grid.mode == "RGB"


def test_grid_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="at least one"):
        to_grid([])


def test_histogram_file_holds_edges_and_counts_and_the_rest(tmp_path):
    values = torch.tensor([[0.0, 1.0], [1.0, float("nan")]])

    content = json.loads(write(Media("histogram", values), tmp_path / "h").read_text())

    assert len(content["edges"]) == len(content["counts"]) + 1
    assert (content["edges"][0], content["edges"][-1]) == (0.0, 1.0)
    assert (content["counts"][0], content["counts"][-1]) == (1, 2)
    assert content["non_finite"] == 1


@pytest.mark.parametrize("value", [[3], [1e30, 1e30], [0.0, 0.0], [1, 2, 3]])
def test_histogram_of_hardly_any_width_counts_everything(value):
    counts, edges = to_histogram(value)
    assert sum(counts) == len(value)
    assert edges[0] <= min(value) <= max(value) <= edges[-1]


def test_histogram_of_nothing_is_empty():
    assert sum(to_histogram([])[0]) == 0


def read_table(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_table_of_columns_and_rows_is_written_as_csv(tmp_path):
    value = {"columns": ["name", "n"], "rows": [["a,b", 1], ["\N{SNOWMAN}\n", torch.tensor(2.5)]]}
    assert read_table(write(Media("table", value), tmp_path / "t")) == [
        ["name", "n"],
        ["a,b", "1"],
        ["\N{SNOWMAN}\n", "2.5"],
    ]


def test_table_of_mappings_has_all_their_columns(tmp_path):
    value = [{"a": 1}, {"b": np.float32(0.5), "a": 2}]
    assert to_table(value) == (["a", "b"], [[1, None], [2, 0.5]])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"columns": ["a", "b"], "rows": [[1, 2], [3]]},
            r"row 1 .* 1 cells for 2 columns \(a, b\)",
        ),
        ({"columns": ["a"], "data": []}, "columns and rows, not columns, data"),
        ([[1, 2]], "list of mappings, but holds a list"),
    ],
)
def test_table_of_wrong_form_is_refused(value, message):
    with pytest.raises(ConfigError, match=message):
        to_table(value)


def test_text_is_written_in_utf8(tmp_path):
    path = write(Media("text", "z\N{LATIN SMALL LETTER U WITH DIAERESIS}\n"), tmp_path / "t")
    assert path.read_bytes() == b"z\xc3\xbc\n"


@pytest.mark.parametrize(
    ("value", "channels", "samples"),
    [
        (torch.tensor([0.0, 1.0, -1.0, 2.0]), 1, [0, 32767, -32767, 32767]),
        (np.array([[0.0, 1.0], [-1.0, 0.0]]), 2, [0, -32767, 32767, 0]),
        (np.array([1, -2], dtype=np.int16), 1, [1, -2]),
    ],
)
def test_audio_is_written_as_16_bit_samples(tmp_path, value, channels, samples):
    path = write(Media("audio", value, sample_rate=16000), tmp_path / "a")

    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels()) == (16000, channels)
        assert np.frombuffer(file.readframes(99), dtype="<i2").tolist() == samples


@pytest.mark.parametrize("value", [np.zeros((100, 2)), np.zeros((1, 1, 5)), np.array([1, 2])])
def test_audio_of_wrong_shape_or_type_is_refused(tmp_path, value):
    with pytest.raises(ConfigError, match="audio"):
        write(Media("audio", value, sample_rate=1), tmp_path / "a")
    assert list(tmp_path.iterdir()) == []
