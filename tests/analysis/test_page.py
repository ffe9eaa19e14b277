"""The page that `jade analyze --html` writes, in a real browser with real clicks."""

import json
import re
import sys

import pytest
from analyzed_runs import write_measured_run, write_test
from browser import start_browser

from jade.analysis.configurations import summarize
from jade.analysis.curves import gather_curves
from jade.analysis.page import render_page
from jade.analysis.pictures import Album
from jade.analysis.sources import collect
from jade.analysis.table import Table
from jade.cli import main
from jade.run_dir import RunDir

HOSTILE = "</script><img src=x onerror=document.title='hacked'>"


def write_sweep(root):
    """Twelve runs of six configurations, one of them failed, one tested, two with pictures."""
    from PIL import Image

    runs, number = root / "runs", 0
    for lr in (0.001, 0.01, 0.1):
        for kind in ("relu", "tanh"):
            for seed in (0, 1):
                accuracy = 0.9 - 5 * abs(lr - 0.01) ** 1.2 - 0.1 * (kind == "tanh") + 0.01 * seed
                metrics = {
                    "Accuracy": [accuracy * (1 - 0.5 ** (step + 1)) for step in range(20)],
                    "Loss": [1 / (step + 1) for step in range(20)],
                }
                status = "failed" if number == 11 else "finished"
                values = {"lr": lr, "act": kind, "seed": seed}
                run = write_measured_run(
                    runs, f"r{number:02d}", values, metrics, status, started=1000.0 + number
                )
                if number in (4, 5):
                    write_test(run, "20260101-000000", {"Accuracy": accuracy})
                    folder = run.evaluation("Images", 20).parent
                    folder.mkdir(parents=True)
                    Image.new("RGB", (40, 30), (10 * number, 90, 60)).save(folder / "00000020.png")
                number += 1
    (root / "sweep.yml").write_text(
        "method: grid\nmetric: {name: Accuracy, goal: maximize}\n"
        "parameters: {model.lr: {values: [1]}, model.act: {values: [1]}}\n"
    )
    (runs / "r03" / "status.json").unlink()
    return root


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a sweep, and its page."""
    folder = tmp_path_factory.mktemp("page")
    root = write_sweep(folder / "my sweep")
    assert main(["analyze", str(root), "--html", str(folder / "page.html")]) == 0
    return root, folder / "page.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with start_browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def page(browser, made):
    browser.open(made[1])
    return browser


def shown(page):
    """Return the ids of the runs in the table, from above."""
    return page.run(
        "return [...document.querySelectorAll('#runs tbody tr')].map(row => row.dataset.run)"
    )


def column(page, name):
    """Return the cells of a column of the table of runs."""
    return page.run(
        """const names = [...document.querySelectorAll('#runs thead th')].map(h => h.textContent);
        const place = names.indexOf(arguments[0]);
        return [...document.querySelectorAll('#runs tbody tr')].map(r => r.cells[place].textContent)""",
        name,
    )


def header(page, name):
    (found,) = [h for h in page.find_all("#runs thead th button") if h.text == name]
    return found


def type_filter(page, text):
    page.show("#filter").type(text)


def traces(page):
    """Return the names of the curves, once they are drawn."""
    page.show("#curves")
    page.wait_for("return document.querySelector('#curves').data")
    return page.run("return document.querySelector('#curves').data.map(trace => trace.name)")


def wait_for_traces(page, names):
    page.show("#curves")
    page.wait_for(
        """const data = document.querySelector('#curves').data;
        return data && JSON.stringify(data.map(t => t.name)) === JSON.stringify(arguments[0])""",
        names,
    )


def test_page_opens_with_the_best_runs_first_and_without_complaints(page):
    assert page.title == "my sweep"
    assert shown(page)[:3] == ["r05", "r04", "r01"]
    assert len(shown(page)) == 12
    assert page.find("#count").text == "12"
    assert "1 failed" in page.find("#cards").text
    assert page.complaints() == []


def test_page_asks_nothing_of_a_network(page, made):
    traces(page)
    page.show("#scatter")
    page.wait_for("return document.querySelectorAll('#scatter .js-plotly-plot').length === 2")

    loaded = page.run(
        "return performance.getEntriesByType('resource').map(e => e.name).filter(n => !n.startsWith('data:'))"
    )
    assert loaded == []
    assert page.complaints() == []
    text = made[1].read_text()
    head = text[: text.index('<script type="text/plain" id="plotly-source">')]
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)[^\"' ]+", head) == []


def test_clicking_a_header_sorts_and_clicking_it_again_turns_that_round(page):
    header(page, "lr").click()
    assert column(page, "lr") == sorted(column(page, "lr"), key=float)
    assert page.find("#runs th[aria-sort=ascending]").text == "lr"

    header(page, "lr").click()
    assert column(page, "lr") == sorted(column(page, "lr"), key=float, reverse=True)

    header(page, "run").click()
    assert shown(page) == [f"r{number:02d}" for number in range(12)]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("tanh", {"r02", "r03", "r06", "r07", "r10", "r11"}),
        ("lr<0.05 relu", {"r00", "r01", "r04", "r05"}),
        ("status=failed", {"r11"}),
        ("act!=relu lr>=0.1", {"r10", "r11"}),
        ("accuracy>0.895", {"r04", "r05"}),
        ("nothing like it", set()),
    ],
)
def test_filter_keeps_what_it_says(page, text, ids):
    type_filter(page, text)

    page.wait_for(
        "return document.querySelector('#count').textContent === arguments[0]",
        f"{len(ids)} of 12",
    )
    assert {run for run in shown(page) if run} == ids


def test_status_button_hides_its_runs(page):
    (failed,) = [b for b in page.find_all("#statuses button") if b.text == "failed"]
    failed.click()

    assert "r11" not in shown(page)
    assert failed.attribute("aria-pressed") == "false"
    failed.click()
    assert "r11" in shown(page)


def test_brushing_an_axis_filters_the_table(page):
    axis = page.show("#parallel [data-axis=lr]")
    # From above the top to a little below it: the largest value only.
    page.drag(axis, 0.02, 0.2)

    page.wait_for("return document.querySelector('#count').textContent === '4 of 12'")
    assert set(shown(page)) == {"r08", "r09", "r10", "r11"}
    assert len(page.find_all("#parallel .brush")) == 1

    page.drag(page.find("#parallel [data-axis=act]"), 0.98, 0.8)
    page.wait_for("return document.querySelector('#count').textContent === '2 of 12'")
    assert set(shown(page)) == {"r08", "r09"}

    page.find("#parallel [data-axis=lr]").click()
    page.wait_for("return document.querySelector('#count').textContent === '6 of 12'")

    page.click("#clear-brushes")
    assert len(shown(page)) == 12


def test_selected_runs_have_their_curves_drawn(page):
    wait_for_traces(page, ["r05", "r04", "r01", "r00", "r07"])

    for run in ("r08", "r02"):
        page.click(f"#runs tr[data-run={run}] input")

    wait_for_traces(page, ["r08", "r02"])
    assert "2 selected runs" in page.find("#curves-note").text
    page.click("#deselect")
    wait_for_traces(page, ["r05", "r04", "r01", "r00", "r07"])


def test_curves_are_those_of_the_files(page):
    page.click("#runs tr[data-run=r00] input")
    wait_for_traces(page, ["r00"])

    (curve,) = page.run("return document.querySelector('#curves').data.map(t => [t.x, t.y])")

    accuracy = 0.9 - 5 * 0.009**1.2
    assert curve[0] == list(range(1, 21))
    assert curve[1][-1] == pytest.approx(accuracy * (1 - 0.5**20), rel=1e-4)


def test_another_metric_turns_the_whole_page(page):
    page.show("#measure")
    for option in page.find_all("#measure option"):
        if option.text.startswith("Loss"):
            option.click()
            break

    assert column(page, ["Loss", "▲"][0])
    assert page.find("#repetitions thead").text.split()[0] == "Loss"
    assert "less is better" in page.find("#cards").text
    page.show("#curves")
    page.wait_for(
        "return (document.querySelector('#curves').layout || {}).yaxis?.title.text === 'Loss'"
    )


def test_clicking_a_point_selects_its_run(page):
    page.show("#scatter .plot[data-parameter='model.params.lr']")
    page.wait_for(
        "return document.querySelectorAll(\"[data-parameter='model.params.lr'] .point\").length"
    )
    page.point_and_click(page.find_all("[data-parameter='model.params.lr'] .point")[0])

    assert "1 selected run" in page.wait_for(
        "const t = document.querySelector('#curves-note').textContent; return t.startsWith('1 ') && t"
    )


def test_means_and_ties_are_those_of_the_command(page, made):
    table = Table(collect([str(made[0])], {}))
    expected = summarize(table, [table.measures.find("Accuracy")])

    rows = page.run(
        """return [...document.querySelectorAll('#repetitions tbody tr')].map(
             row => [...row.cells].map(cell => cell.textContent))"""
    )

    assert len(rows) == 6
    for cells, row in zip(rows, expected, strict=True):
        assert cells[0].split()[0] == str(row["place"])
        assert ("tie" in cells[0]) is row["tied_with_best"]
        assert float(cells[1].split()[0]) == pytest.approx(
            row["mean"], abs=10 ** -len(cells[1].split()[0]) * 60
        )
        assert cells[4] == row["model.params.act"]
        assert float(cells[5]) == row["model.params.lr"]
    assert rows[-1][3] == "1 of 2"


def test_details_of_a_run_open_and_close(page):
    page.click("#runs tr[data-run=r03] .link")

    text = page.find("#details").text
    assert "status.json is missing" in text
    assert "model.params.lr" in text
    page.click("#details button")
    assert not page.run("return document.querySelector('#details').open")


def test_columns_can_be_chosen(page):
    page.click("#columns summary")
    (box,) = [label for label in page.find_all("#columns label") if label.text == "best/Loss"]
    box.click()
    assert column(page, "best/Loss")[0] == "0.05"


def test_pictures_and_notes_are_shown(page):
    page.show("#pictures")
    page.wait_for(
        "return [...document.querySelectorAll('#pictures img')].filter(i => i.naturalWidth === 40).length === 2"
    )
    assert "r03: status.json is missing" in page.find("#notes").text


def test_dark_mode_is_dark_everywhere_and_follows_the_system(page):
    brightness = """const [r, g, b] = getComputedStyle(document.querySelector(arguments[0]))
        [arguments[1]].match(/[0-9.]+/g).map(Number); return r + g + b"""
    traces(page)
    assert page.run(brightness, "body", "backgroundColor") > 600

    page.set_scheme("dark")

    page.wait_for(
        f"return (() => {{ {brightness} }})() < 150".replace(
            "arguments", "['body', 'backgroundColor']"
        )
    )
    assert page.run(brightness, ".panel", "backgroundColor") < 150
    assert page.run(brightness, "h2", "color") > 600
    page.show("#curves")
    page.wait_for(
        """const text = document.querySelector('#curves .xtick text');
        const [r, g, b] = getComputedStyle(text).fill.match(/[0-9.]+/g).map(Number);
        return r + g + b > 380"""
    )


def test_phone_never_scrolls_sideways_as_a_whole(browser, made):
    browser.open(made[1], width=360, height=740, touch=True)
    for selector in ("#curves", "#scatter", "#pictures"):
        browser.show(selector)
    browser.wait_for("return document.querySelectorAll('#scatter .js-plotly-plot').length === 2")

    assert browser.run("return document.documentElement.scrollWidth") == 360
    assert browser.run("return document.querySelector('#runs').scrollWidth") > 360
    third = shown(browser)[2]
    browser.click(f"#runs tr[data-run={third}] input")
    wait_for_traces(browser, [third])


def test_names_cannot_run_code(browser, tmp_path):
    values = {"lr": HOSTILE, "seed": 0}
    for number in range(2):
        run = write_measured_run(
            tmp_path / "runs",
            f"r{number}",
            {**values, "n": number},
            {"Loss": [1.0, 2.0]},
            reason=HOSTILE,
        )
        run.metrics.write_text(f'iteration,epoch,"{HOSTILE}"\n1,0,1.0\n2,0,2.0\n')
        status = json.loads(run.status_file.read_text())
        run.status_file.write_text(json.dumps({**status, "name": HOSTILE}))
    path = tmp_path / "page.html"
    assert main(["analyze", str(tmp_path / "runs"), "--html", str(path)]) == 0

    browser.open(path)
    traces(browser)

    assert browser.title == str(tmp_path / "runs")
    assert browser.find_all("img") == []
    assert HOSTILE in browser.find("#runs").text


@pytest.mark.parametrize("metrics", [{}, {"Loss": [1.0]}])
def test_page_of_a_single_run_says_what_is_missing(browser, tmp_path, metrics):
    write_measured_run(tmp_path / "runs", "only", {"lr": 1}, metrics)
    path = tmp_path / "page.html"
    assert main(["analyze", str(tmp_path / "runs"), "--html", str(path)]) == 0

    browser.open(path)

    assert shown(browser) == ["only"]
    assert "do not differ" in browser.find("#scatter").text
    assert "Not estimated" in browser.find("#importance-note").text
    assert browser.complaints() == []


def test_importance_is_estimated_by_optuna(tmp_path):
    pytest.importorskip("optuna")
    for number in range(16):
        values = {"lr": 0.1 * number, "noise": (number * 7) % 5, "kind": "ab"[number % 2]}
        write_measured_run(tmp_path, f"r{number}", values, {"Loss": [float(number)]})
    table = Table(collect([str(tmp_path)], {}))

    text = render_page(table, [table.measures.find("Loss")], ["x"])

    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
    assert data["importance"]["shares"][0][0] == "lr"
    assert "Optuna" in data["importance"]["note"]
    assert sum(share for _, share in data["importance"]["shares"]) == pytest.approx(1)


def test_importance_without_optuna_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    for number in range(12):
        values = {"lr": number, "kind": "ab"[number % 2]}
        write_measured_run(tmp_path, f"r{number}", values, {"Loss": [float(number)]})
    table = Table(collect([str(tmp_path)], {}))

    assert "the package optuna is not installed" in render_page(
        table, [table.measures.find("Loss")], ["x"]
    )


def test_page_without_plotly_is_one_message(tmp_path, monkeypatch, capsys):
    write_measured_run(tmp_path / "runs", "a", {}, {"Loss": [1.0]})
    monkeypatch.setitem(sys.modules, "plotly", None)

    assert main(["analyze", str(tmp_path / "runs"), "--html", str(tmp_path / "a.html")]) == 2
    assert "pip install 'jade-trainer[report]'" in capsys.readouterr().err
    assert not (tmp_path / "a.html").exists()


def test_many_curves_are_thinned_or_left_to_the_best(tmp_path, monkeypatch):
    monkeypatch.setattr("jade.analysis.curves.MOST_POINTS", 64)
    for number in range(6):
        metrics = {"Loss": [float(step) for step in range(50)]}
        write_measured_run(tmp_path, f"r{number}", {}, metrics)
    runs = collect([str(tmp_path)], {}, num_points=200).runs

    curves = gather_curves(runs, [5, 4, 3, 2, 1, 0])

    assert sorted(curves.by_metric[0]) == [2, 3, 4, 5]
    assert all(len(steps) <= 16 for steps, _ in curves.by_metric[0].values())
    assert curves.note == "only those of the best 4 runs are here"


def test_large_and_damaged_pictures_do_not_swell_the_page(tmp_path):
    import os

    from PIL import Image

    run = RunDir.create(tmp_path, "a")
    pixels = os.urandom(1200 * 1200 * 3)
    for name, save in (
        ("Large", Image.frombytes("RGB", (1200, 1200), pixels).save),
        ("Broken", lambda path: path.write_bytes(b"no picture")),
        ("Small", Image.new("L", (8, 8)).save),
    ):
        path = run.evaluation(name, 1).with_suffix(".png")
        path.parent.mkdir(parents=True)
        save(path)

    found = {image["name"]: image["data"] for image in Album().embed(run)}

    assert set(found) == {"Large", "Small"}
    assert found["Small"].startswith("data:image/png;base64,")
    assert found["Large"].startswith("data:image/webp;base64,")
    assert len(found["Large"]) < 1_500_000
    assert Album(room=10).embed(run) == []
