import re

import pytest
from fixtures.runs import write_sweep

from isentropic.reporting.render import markdown
from isentropic.reporting.render.report import findings
from isentropic.runs.run import find


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    home = tmp_path_factory.mktemp("written")
    folder = write_sweep(home / "sweep")
    (home / "figures").mkdir()
    report = findings(find([folder]), [folder], "isentropic report sweep", (), None, home / "figures")
    markdown.write(report, home)
    return home


def test_the_text_says_first_what_differs_and_what_cannot_be_claimed(written):
    text = (written / "report.md").read_text()
    heads = re.findall(r"^## (.*)$", text, re.M)
    assert heads[:4] == ["What differs", "What cannot be claimed", "Final scores", "Differences"]
    assert text.startswith("# 6 runs of sweep\n\n```bash\nisentropic report sweep\n```")
    assert "| grpo | 3 | 0.412 \\[0.384, 0.439\\] |" in text


def test_every_picture_of_the_text_is_there_and_has_an_alt_text(written):
    found = re.findall(r"!\[(.+?[^\\])\]\((figures/\w+\.png)\)", (written / "report.md").read_text())
    scores = ("avg_at_8", "pass_at_16")
    names = [
        "headline",
        "overview",
        *(f"final_{s}" for s in scores),
        *(f"eval_{s}_rollouts" for s in scores),
        "entropy_mean_rollouts",
    ]
    assert [path for _, path in found] == [f"figures/{name}.png" for name in names]
    assert all((written / path).is_file() and len(alt) > 30 for alt, path in found)


def test_the_table_for_a_paper_has_an_interval_per_score(written):
    lines = (written / "table.tex").read_text().splitlines()
    assert (
        lines[2] == r"\begin{tabular}{lrrrr}"
        and lines[3] == r"\toprule"
        and lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    )
    assert lines[4] == r"group & seeds & avg@8 & pass@16 & entropy at the end \\"
    assert lines[6].startswith("grpo & 3 & 0.412 [0.384, 0.439] & 0.612 [0.584, 0.639] & ")


def test_names_cannot_break_the_markup(a_run, tmp_path):
    runs = find([a_run(tmp_path / "run")], "50%_of|$x$ <b>&\n# {head}")
    report = findings(runs, [tmp_path], "command", (), None, None)
    assert r"50%\_of\|$x$ \<b>& # {head}" in markdown.markdown(report)
    assert r"50\%\_of|\$x\$ <b>\& \# \{head\} & 1 &" in markdown.latex(report)


def test_of_pass_at_k_that_a_curve_shows_the_text_has_the_largest_k_and_latex_all(a_run, tmp_path):
    for seed in range(3):
        a_run(tmp_path / "s" / f"{seed}", seed=seed, scores={f"eval/t1/pass@{k}": [0.1, 0.1 * k] for k in (1, 2, 4, 8)})
    report = findings(find([tmp_path / "s"]), [tmp_path / "s"], "command", (), None, None)
    assert "| group | seeds | t1/pass@8 | entropy at the end |" in markdown.markdown(report)
    assert r"group & seeds & t1/pass@1 & t1/pass@2 & t1/pass@4 & t1/pass@8 &" in markdown.latex(report)
