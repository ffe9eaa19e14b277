"""What a sweep file says beyond W&B's format: the section ``jade``."""

import textwrap

import pytest

from jade.errors import ConfigError
from jade.sweep import derive_seed, load_sweep, point_key, run_id_of
from jade.sweep.distributions import Beta, Categorical, IntUniform, LogNormal, LogUniform, Normal
from jade.sweep.distributions import Uniform as UniformRange

TWO = "{a: {values: [1, 2]}, b: {values: [10, 20]}}"


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Load a sweep with parameters and a section of JADE."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()

    def load_file(jade, parameters=TWO, method="grid"):
        text = f"program: train.py\nmethod: {method}\nparameters: {parameters}\njade:\n"
        path = tmp_path / "sweep.yml"
        path.write_text(text + textwrap.indent(textwrap.dedent(jade), "  "))
        return load_sweep(path)

    return load_file


def values_of(sweep):
    return [dict(point.values) for point in sweep.grid]


def test_zipped_keys_change_together(load):
    sweep = load("zip: [[a, b]]", "{a: {values: [1, 2]}, b: {values: [5, 5]}, c: {values: [x, y]}}")

    assert values_of(sweep) == [
        {"a": 1, "b": 5, "c": "x"},
        {"a": 1, "b": 5, "c": "y"},
        {"a": 2, "b": 5, "c": "x"},
        {"a": 2, "b": 5, "c": "y"},
    ]


def test_a_key_whose_condition_is_not_met_is_left_out_and_equal_points_count_once(load):
    parameters = "{kind: {values: [conv, mlp]}, width: {values: [3, 5]}, pad: {values: [0, 1]}}"
    sweep = load("when: {width: {kind: conv}, pad: {width: [5]}}", parameters)

    assert values_of(sweep) == [
        {"kind": "conv", "width": 3},
        {"kind": "conv", "width": 5, "pad": 0},
        {"kind": "conv", "width": 5, "pad": 1},
        {"kind": "mlp"},
    ]
    assert sweep.num_runs == 4


def test_what_a_case_leaves_open_varies_around_it(load):
    sweep = load("cases: [{a: 7}, {a: 8, b: 9, c: new}]")

    assert values_of(sweep) == [
        {"a": 7, "b": 10},
        {"a": 7, "b": 20},
        {"a": 8, "b": 9, "c": "new"},
    ]


def test_a_random_search_begins_with_its_cases_and_heeds_groups(load):
    sweep = load(
        "cases: [{a: 7}]\nzip: [[b, c]]",
        "{a: {min: 0.0, max: 1.0}, b: {values: [1, 2]}, c: {values: [3, 4]}}",
        method="random",
    )

    drawn = [dict(sweep.draw(index).values) for index in range(20)]

    assert drawn[0]["a"] == 7
    assert all(0 <= point["a"] <= 1 for point in drawn[1:])
    assert {(point["b"], point["c"]) for point in drawn} == {(1, 3), (2, 4)}
    assert drawn == [dict(sweep.draw(index).values) for index in range(20)]


def test_numbers_and_times_are_read(load):
    local = load("repetitions: 3\nmax_concurrent_runs: 2\ntimeout: 2 hours\nseed: 5").local

    assert (local.repetitions, local.max_concurrent_runs, local.seed) == (3, 2, 5)
    assert local.timeout_s == 7200


@pytest.mark.parametrize(
    ("jade", "message"),
    [
        ("repetition: 2", "sweep.yml:5: unknown key 'repetition' of jade. Did you mean 'repetit"),
        ("repetitions: 0", "sweep.yml:5: repetitions must be a whole number above 0, not 0."),
        ("max_concurrent_runs: many", "max_concurrent_runs must be a whole number above 0"),
        ("timeout: 2 epochs", "timeout: '2 epochs' is no time. Write '2 hours'."),
        ("timeout: soon", "timeout"),
        ("zip: [[a, z]]", "zip: 'z' is not swept. Known: a, b."),
        ("zip: [a, b]", "zip must be a list of lists of keys"),
        ("zip: [[a, b], [b, a]]", "zip: b stands there twice."),
        ("when: {a: {z: 1}}", "when: 'z' is not swept. Known: a, b."),
        ("when: {z: {a: 1}}", "when: 'z' is not swept."),
        ("when: {a: {b: 10}, b: {a: 1}}", "depends on itself"),
        ("when: {a: 1}", "a has 1"),
        ("when: [a]", "when must be a mapping"),
        ("cases: {a: 1}", "cases must be a list of mappings"),
        ("cases: [1]", "case 1 must be a mapping, not 1."),
    ],
)
def test_mistakes_in_the_section_are_named_with_their_line(load, jade, message):
    with pytest.raises(ConfigError, match=r"sweep\.yml:") as error:
        load(jade)

    assert message in str(error.value)


def test_values_that_go_together_must_be_as_many(load):
    with pytest.raises(ConfigError, match="must be as many: a has 2, b has 3"):
        load("zip: [[a, b]]", "{a: {values: [1, 2]}, b: {values: [1, 2, 3]}}")


def test_a_range_cannot_be_zipped(load):
    with pytest.raises(ConfigError, match="zip: b has no list of values"):
        load("zip: [[a, b]]", "{a: {values: [1, 2]}, b: {min: 0.0, max: 1.0}}", method="random")


def test_a_section_that_is_no_mapping_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "sweep.yml"
    path.write_text("program: sweep.yml\nmethod: grid\nparameters: {a: {value: 1}}\njade: 3\n")

    with pytest.raises(ConfigError, match=r"sweep.yml:4: jade must be a mapping"):
        load_sweep(path)


def test_equal_points_have_equal_keys():
    assert point_key({"a": 1, "b": [0.5]}) == point_key({"b": [0.5], "a": 1.0})
    assert point_key({"a": 1}) != point_key({"a": True})
    assert point_key({"a": 1}) != point_key({"a": "1"})


def test_a_run_id_can_be_the_name_of_a_directory():
    assert run_id_of("my sweep/é", "0123456789abcdef") == "my-sweep-0123456789"
    assert run_id_of("s", "0123456789abcdef", 2) == "s-0123456789-r2"


def test_seeds_of_repetitions_differ_and_are_always_the_same():
    seeds = [derive_seed(7, "key", repetition) for repetition in (2, 3, 4)]

    assert len(set(seeds)) == 3
    assert seeds[0] == derive_seed(7, "another point", 2)
    assert derive_seed(None, "key", 2) != derive_seed(None, "another point", 2)


@pytest.mark.parametrize(
    ("distribution", "share", "value"),
    [
        (Normal(1.0, 2.0), 0.5, 1.0),
        (Normal(1.0, 2.0), 0.975, 1.0 + 2 * 1.959963985),
        (Normal(3.0, 0.0), 0.1, 3.0),
        (LogNormal(0.0, 1.0), 0.5, 1.0),
        (Beta(2.0, 2.0), 0.5, 0.5),
        (Beta(1.0, 1.0), 0.3, 0.3),
        (Beta(2.0, 5.0), 0.01, 0.02676319),
        (Beta(0.5, 0.5), 0.25, 0.14644661),
        (UniformRange(2.0, 4.0), 0.25, 2.5),
        (UniformRange(0.0, 10.0, 5), 0.3, 5),
        (LogUniform(1.0, 100.0), 0.5, 10.0),
        (IntUniform(1, 3), 0.0, 1),
        (IntUniform(1, 3), 1.0, 3),
        (Categorical(("a", "b", "c"), (0.5, 0.5, 0.0)), 0.49, "a"),
        (Categorical(("a", "b", "c"), (0.5, 0.5, 0.0)), 1.0, "b"),
    ],
)
def test_quantiles_are_those_of_the_distribution(distribution, share, value):
    found = distribution.quantile(share)

    assert found == (value if isinstance(value, str) else pytest.approx(value, rel=1e-6))
