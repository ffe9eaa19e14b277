import pytest
from analyzed_runs import write_measured_run

from jade.analysis.latex import escape, render_latex
from jade.analysis.sources import collect
from jade.analysis.table import Table


def render(root, points, metric="Acc", **options):
    for lr, values in points.items():
        for seed, value in enumerate(values):
            run_id = f"r{lr}-{seed}"
            write_measured_run(root, run_id, {"lr_x": lr, "seed": seed}, {metric: [value]})
    table = Table(collect([str(root)], {}))
    return render_latex(table, [table.measures.find(metric)], **options)


def test_table_has_booktabs_means_and_run_ids(tmp_path):
    text = render(tmp_path, {0.1: (0.8, 0.82), 0.2: (0.7,)})

    assert "\\toprule\nlr\\_x & $n$ & Acc $\\uparrow$ \\\\\n\\midrule\n" in text
    assert "% r0.1-0, r0.1-1\n0.1 & 2 & $0.810 \\pm 0.127$ \\\\\n" in text
    assert "% r0.2-0\n0.2 & 1 & $0.7$ \\\\\n\\bottomrule\n" in text


@pytest.mark.parametrize(
    ("points", "is_bold"),
    [
        ({1: (0.9, 0.901, 0.902), 2: (0.8, 0.801, 0.802)}, True),
        ({1: (0.9, 0.95, 0.85), 2: (0.88, 0.89, 0.87)}, False),
        ({1: (0.9,), 2: (0.8,)}, False),
        ({1: (0.9, 0.901, 0.902), 2: (0.8,)}, False),
        ({1: (0.9, 0.901, 0.902)}, False),
    ],
)
def test_best_is_bold_only_if_it_is_known_to_be_the_best(tmp_path, points, is_bold):
    assert ("mathbf" in render(tmp_path, points)) is is_bold


def test_limit_keeps_the_best(tmp_path):
    text = render(tmp_path, {1: (0.5,), 2: (0.6,), 3: (0.7,)}, limit=1)
    assert ("r3-0" in text, "r2-0" in text) == (True, False)


def test_configuration_without_a_value_has_a_dash(tmp_path):
    write_measured_run(tmp_path, "x", {"lr_x": 7}, {}, "failed")
    text = render(tmp_path, {1: (0.5,)})
    assert "% x (failed)\n7 & 0 & -- \\\\" in text


def test_text_cannot_command_latex():
    assert escape("50%_{a}\\x\n$&#~^<") == (
        "50\\%\\_\\{a\\}\\textbackslash{}x \\$\\&\\#\\textasciitilde{}\\textasciicircum{}\\textless{}"
    )
