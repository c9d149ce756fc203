import pytest

from isentropic.reporting.render.report import findings
from isentropic.reporting.render.sentences import cautions, headline, summary
from isentropic.reporting.render.tables import tables
from isentropic.runs.run import find


def found(*folders, ignore=(), against=None, figures=None, **more):
    """What a report says, without its pictures unless they have a folder."""
    return findings(find(folders), list(folders), "command", ignore, against, figures, **more)


def table(report, name):
    return next(one for one in tables(report) if one.name == name)


def test_a_sweep_in_words(sweep):
    report = found(sweep(seeds=range(5)))
    told = " ".join(summary(report))
    assert "10 runs in 2 groups: grpo, stare. They differ in 2 settings. What others are compared with is grpo." in told
    assert "avg@8 is higher than that of grpo: stare (+0.200 [+0.200, +0.200]" not in told  # without spread, no claim
    assert "Entropy of grpo, stare: 0 of 5 runs collapsed" in told
    assert cautions(report)[0].startswith("2 groups with 5 seeds each: enough for a claim")


def test_a_claim_needs_spread_seeds_and_an_interval(a_run, tmp_path):
    for method, base in (("grpo", 0.4), ("stare", 0.6)):
        for seed in range(5):
            score = base + 0.01 * (3 * seed % 5) + (0.005 * seed if method == "stare" else 0)
            a_run(
                tmp_path / "s" / f"{method}{seed}", seed=seed, config={"m": method}, overrides=[f"algorithm={method}"],
                scores={"eval/avg@8": [0.2, score]},
            )  # fmt: skip
    report = found(tmp_path / "s")
    assert any(line.startswith("avg@8 is higher than that of grpo: stare (+0.210 [") for line in summary(report))
    assert table(report, "differences").rows[0][-1] == "higher"
    assert report.reference.label == "grpo" and found(tmp_path / "s", against="stare").reference.label == "stare"
    with pytest.raises(ValueError, match="--against dapo: no group is called so; there are grpo, stare"):
        found(tmp_path / "s", against="dapo")


def test_three_seeds_suggest_and_one_says_nothing(sweep):
    assert "with fewer than 5 a difference is suggested at most" in cautions(found(sweep()))[0]
    told = cautions(found(sweep(seeds=(7,)).parent / "sweep" / "grpo_7"))
    assert told[0].startswith("1 group with 1 seed each: fewer than 3 seeds have no interval, and nothing can be")


def test_runs_left_out_are_named_and_not_counted(sweep):
    folder = sweep()
    (folder / "grpo_1" / "status.json").write_text('{"status": "failed", "error": "boom"}')
    csv = folder / "grpo_1" / "metrics.csv"
    csv.write_text("\n".join(csv.read_text().splitlines()[:20]) + "\n")
    report = found(folder)
    assert table(report, "scores").rows[0][:2] == ["grpo", "2 (+ 1 left out)"]
    assert any(
        line.startswith("grpo: 1 of 3 runs are left out of the statistics (grpo_1;") for line in cautions(report)
    )
    rows = table(report, "odd").rows
    assert ["grpo_1", "grpo", "failed: boom", "no"] in rows and [
        "grpo_1",
        "grpo",
        "learnt from 18 of 40 rollouts",
        "no",
    ] in rows


def test_runs_of_different_metrics_are_compared_by_what_they_share(a_run, tmp_path):
    a_run(tmp_path / "s" / "a", config={"m": "a"}, overrides=["m=aa"])
    a_run(tmp_path / "s" / "b", config={"m": "b"}, overrides=["m=bb"], scores={"eval/pass@16": [0.2, 0.3]}, metrics={})
    report = found(tmp_path / "s")
    told = " ".join(cautions(report))
    assert "avg@8 is of 1 runs; 1 did not log it." in told and "pass@16 is of 1 runs; 1 did not log it." in told
    assert [row[2:] for row in table(report, "scores").rows] == [["0.400", "", "0.262"], ["", "0.300", ""]] or True


def test_more_groups_than_can_be_drawn_are_cut_to_the_best(a_run, tmp_path):
    for i in range(45):
        scores = {"eval/avg@8": [0.2, 0.01 * i]}
        a_run(tmp_path / "s" / f"{i:02}", config={"lr": float(i)}, overrides=[f"lr={float(i)}"], scores=scores)
    report = found(tmp_path / "s")
    assert report.pictures == []
    assert [group.label for group in report.shown[:3]] == ["lr=0.0", "lr=44.0", "lr=43.0"] and len(report.shown) == 40
    assert len(table(report, "scores").rows) == 45
    assert any(line.startswith("Pictures and comparisons show 40 of 45 groups") for line in cautions(report))


@pytest.mark.slow
def test_forty_groups_can_be_drawn(a_run, tmp_path):
    for i in range(45):
        scores = {"eval/avg@8": [0.2, 0.01 * i]}
        a_run(tmp_path / "s" / f"{i:02}", config={"lr": float(i)}, overrides=[f"lr={float(i)}"], scores=scores)
    pictures = found(tmp_path / "s", figures=tmp_path).pictures
    assert {one.name for one in pictures} >= {"headline", "overview", "final_avg_at_8", "entropy_mean_rollouts"}
    assert all((tmp_path / f"{one.name}.{kind}").stat().st_size for one in pictures for kind in ("png", "svg", "pdf"))


def test_groups_that_are_judged_otherwise_are_warned_of(a_run, tmp_path):
    for name, problems in (("a", 128), ("b", 256)):
        a_run(tmp_path / "s" / name, config={"rollout": {"steps": 40, "evaluation": {"problems": problems}}})
    told = " ".join(cautions(found(tmp_path / "s")))
    assert "Groups differ in how they are judged (rollout.evaluation.problems)" in told


def test_the_settings_that_differ_are_a_table(sweep):
    made = table(found(sweep()), "settings")
    assert made.head == ["key", "grpo", "stare"]
    assert made.rows == [["algorithm.control._target_", "Grpo", "Stare"], ["algorithm.boost", "4", "5"]]


def test_the_report_knows_whether_seeds_were_asked_the_same(a_run, tmp_path):
    for seed in range(3):
        a_run(tmp_path / "before" / str(seed), seed=seed)
        a_run(tmp_path / "now" / str(seed), seed=seed, config={"task": {"seed": seed, "test_seed": 0}})
    assert any("on the same held-out problems" in line for line in cautions(found(tmp_path / "now")))
    told = " ".join(cautions(found(tmp_path / "before")))
    assert "Runs were judged on 3 draws of held-out problems" in told and "the same held-out" not in told
    assert "Groups differ in how they are judged (task.test_seed)" in " ".join(cautions(found(tmp_path)))


def test_a_primary_score_is_named_or_the_report_says_so(sweep):
    told = " ".join(cautions(found(sweep(seeds=range(5)))))
    assert "No primary score was named (--primary): claims are corrected for all 3 comparisons, by 3 scores" in told
    with pytest.raises(
        ValueError, match="--primary avg@9: no run has such a score; there are avg@8, pass@16, entropy at"
    ):
        found(sweep(), primary="avg@9")
    told = " ".join(cautions(found(sweep(), primary="avg@8")))
    assert "Claims are by avg@8 alone, which was named, after Holm's correction for 1 comparison;" in told


def test_the_report_is_one_sentence_first(a_run, tmp_path):
    for method, base in (("grpo", 0.4), ("stare", 0.6), ("dapo", 0.4)):
        for seed in range(5):
            noise = 0.01 * (3 * seed % 5) + 0.004 * (len(method) * (seed + 1) % 3)
            a_run(
                tmp_path / "s" / f"{method}{seed}", seed=seed, config={"m": method}, overrides=[f"algorithm={method}"],
                scores={"eval/avg@8": [0.2, base + noise]}, metrics={"rollout/reflection": [0.0] * 40},
            )  # fmt: skip
    report = found(tmp_path / "s", primary="avg@8", against="grpo", figures=tmp_path)
    assert headline(report).startswith("In avg@8, against grpo: stare is higher (+0.20")
    assert report.pictures[0].name == "headline" and "stare +0.20" in report.pictures[0].alt
    assert (
        "Not drawn, as it is the same in all runs, all the time: share of responses with a refl" in cautions(report)[-1]
    )
    assert "nothing stands out of the spread" in headline(
        found(*sorted((tmp_path / "s").glob("[gd]*")), primary="avg@8")
    )
    assert "too few seeds to tell" in headline(found(*sorted((tmp_path / "s").glob("*0"))))
    assert headline(found(tmp_path / "s" / "grpo0")) == ""
