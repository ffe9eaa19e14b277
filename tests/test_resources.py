import pytest

from jade.errors import ConfigError
from jade.resources import Resources, find_problems, parse_time, read_resources, render_time


def read(**values):
    return read_resources([("slurm.yml", values)])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10:00:00", 36000),
        ("5:00", 300),
        ("2-12", 216000),
        ("2-12:30", 217800),
        ("1-00:00:01", 86401),
    ],
)
def test_times_of_slurm_are_understood(text, seconds):
    assert parse_time(text) == seconds
    assert read(time=text).time == text
    assert parse_time(render_time(seconds)) == seconds


@pytest.mark.parametrize(
    ("given", "time"),
    [("10 hours", "10:00:00"), ("90 minutes", "01:30:00"), ("2 days", "2-00:00:00")],
)
def test_amounts_of_time_become_times_of_slurm(given, time):
    assert read(time=given).time == time


@pytest.mark.parametrize("value", [36000, "36000"])
def test_bare_number_is_no_time_because_nobody_knows_its_unit(value):
    with pytest.raises(ConfigError) as caught:
        read(time=value)
    assert str(caught.value) == (
        "slurm.yml: time: 36000 could be seconds (as an unquoted 10:00:00 is 36000 to many readers "
        "of YAML) or minutes (to SLURM). Write '10:00:00' or '25-00:00:00', with the quotes."
    )


@pytest.mark.parametrize("value", ["10h00", "ten hours", "3 epochs", "0:00", "", True])
def test_wrong_time_is_refused_with_an_example(value):
    with pytest.raises(ConfigError, match=r"Write .*10:00:00"):
        read(time=value)


@pytest.mark.parametrize(("value", "meant"), [("16 GB", "16G"), (16, "16G"), ("lots", "16G")])
def test_wrong_memory_is_refused_with_what_was_meant(value, meant):
    with pytest.raises(ConfigError, match=f"Write {meant}"):
        read(mem=value)


def test_gpus_may_be_of_a_kind():
    assert read(gpus="a100:2").num_gpus == 2
    assert read(gpus=3).num_gpus == 3
    with pytest.raises(
        ConfigError, match="gpus must be a whole number of at least 0 or kind:number"
    ):
        read(gpus="many")


def test_later_places_win_and_lists_grow():
    found = read_resources(
        [
            ("profile", {"partition": "a", "setup": "module load x", "cpus": 2}),
            ("section", {"partition": "b", "setup": ["y", "z"]}),
            ("flags", {"cpus": "8"}),
        ]
    )
    assert found == Resources(partition="b", setup=("module load x", "y", "z"), cpus=8)


def test_all_problems_are_named_with_their_places():
    with pytest.raises(ConfigError) as caught:
        read_resources([("a.yml:3", {"tiem": "1:00"}), ("--cpus", {"cpus": 0})])
    assert caught.value.problems[0].startswith("a.yml:3: unknown key 'tiem'. Did you mean 'time'?")
    assert caught.value.problems[1] == ("--cpus: cpus must be a whole number of at least 1, not 0.")


def test_section_must_be_a_mapping_and_arguments_of_sbatch_must_look_like_it():
    assert "must be a mapping" in find_problems("x", "10:00:00")[0]
    assert "no argument of sbatch" in find_problems("x", {"sbatch_args": ["nice"]})[0]
    assert "more than one line" in find_problems("x", {"sbatch_args": ["--a\n#SBATCH b"]})[0]
    assert find_problems("x", {"partition": 3}) == ["x: partition must be text, not 3."]
    assert find_problems("x", None) == []
