"""The events are read back with TensorBoard's own reader."""

import io
import sys
import wave
from collections import defaultdict

import numpy as np
import pytest
from contract import LoggerContract, run_in
from PIL import Image

from jade.errors import ConfigError
from jade.loggers.tensorboard_logger import TensorboardLogger, require_tensorboard
from jade.media import Media, write


def read_events(directory):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    keep_all = {"scalars": 0, "images": 0, "audio": 0, "histograms": 0, "tensors": 0}
    accumulator = EventAccumulator(str(directory / "tensorboard"), size_guidance=keep_all)
    return accumulator.Reload()


def texts_of(events, name):
    return [
        event.tensor_proto.string_val[0].decode()
        for event in events.Tensors(f"{name}/text_summary")
    ]


def started(directory):
    logger = TensorboardLogger()
    logger.start(run_in(directory))
    return logger


def log_one(directory, media):
    logger = started(directory)
    logger.log_media("thing", media, write(media, directory / "file"), step=3)
    logger.finish(0)
    return read_events(directory)


class TestTensorboardLoggerContract(LoggerContract):
    def make(self):
        return TensorboardLogger()

    def read(self, directory):
        events, metrics = read_events(directory), defaultdict(dict)
        for name in events.Tags()["scalars"]:
            for event in events.Scalars(name):
                metrics[event.step][name] = event.value
        return metrics


def test_tensorboard_config_and_summary_are_readable_text(tmp_path):
    logger = started(tmp_path)
    logger.log({"loss": 1.0}, step=1)
    logger.summarize({"best": np.float32(0.5)})
    logger.finish(0)
    events = read_events(tmp_path)
    assert '"beta": 0.1' in texts_of(events, "config")[0]
    assert '"$DATA"' in texts_of(events, "config")[0]
    assert '"best": "0.5"' in texts_of(events, "summary")[0]


def test_tensorboard_image_is_the_written_file(tmp_path):
    (event,) = log_one(tmp_path, Media("image", np.full((6, 4), 0.5))).Images("thing")
    assert (event.step, event.width, event.height) == (3, 4, 6)
    assert event.encoded_image_string == (tmp_path / "file.png").read_bytes()
    with Image.open(io.BytesIO(event.encoded_image_string)) as picture:
        assert picture.size == (4, 6)


def test_tensorboard_histogram_counts_the_finite_numbers(tmp_path):
    (event,) = log_one(tmp_path, Media("histogram", [1.0, 2.0, np.nan])).Histograms("thing")
    value = event.histogram_value
    assert (value.num, value.min, value.max) == (2, 1, 2)


def test_tensorboard_histogram_of_nothing_is_left_out(tmp_path):
    assert log_one(tmp_path, Media("histogram", [])).Tags()["histograms"] == []


def test_tensorboard_table_is_markdown(tmp_path):
    table = Media("table", [{"name": "a|b", "n": 1}, {"name": "c\nd"}])
    assert texts_of(log_one(tmp_path, table), "thing") == [
        "| name | n |\n| --- | --- |\n| a\\|b | 1 |\n| c d |  |"
    ]


def test_tensorboard_text_is_kept(tmp_path):
    assert texts_of(log_one(tmp_path, Media("text", "z\u00fc")), "thing") == ["z\u00fc"]


def test_tensorboard_sound_keeps_both_channels(tmp_path):
    sound = Media("audio", np.zeros((2, 80)), sample_rate=8000)
    (event,) = log_one(tmp_path, sound).Audio("thing")
    assert (event.sample_rate, event.length_frames) == (8000, 80)
    with wave.open(io.BytesIO(event.encoded_audio_string)) as file:
        assert file.getnchannels() == 2


def test_tensorboard_resumed_run_hides_the_steps_that_come_again(tmp_path):
    first = started(tmp_path)
    for step in (10, 20, 30):
        first.log({"loss": 1.0}, step)
    first.finish(75)

    second = started(tmp_path)
    second.log({"loss": 2.0}, step=20)
    second.finish(0)

    scalars = read_events(tmp_path).Scalars("loss")
    assert [(event.step, event.value) for event in scalars] == [(10, 1.0), (20, 2.0)]


def test_tensorboard_resumed_run_that_logs_nothing_hides_nothing(tmp_path):
    first = started(tmp_path)
    first.log({"loss": 1.0}, step=10)
    first.finish(75)

    second = started(tmp_path)
    second.summarize({"best": 1})
    second.finish(0)

    assert len(read_events(tmp_path).Scalars("loss")) == 1


def test_tensorboard_log_before_start_is_an_error():
    with pytest.raises(RuntimeError, match="before start"):
        TensorboardLogger().log({"a": 1}, step=1)


def test_tensorboard_not_installed_names_the_cure(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    cure = r"pip install 'jade-trainer\[tensorboard\]'"
    with pytest.raises(ConfigError, match=cure):
        require_tensorboard()
    with pytest.raises(ConfigError, match=cure):
        started(tmp_path)
    assert list(tmp_path.iterdir()) == []
