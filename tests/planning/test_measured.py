from isentropic.plan import composed, planned
from isentropic.planning.measured import Comparison, table

FOUND = {
    "memory": {"update_used": 50.0, "rollout_used": 60.0},
    "seconds": {"median": {"sample": 20.0, "update": 10.0, "step": 32.0}},
}


def test_what_was_planned_stands_before_what_was_measured():
    plan = planned(composed("experiment=stare_qwen2_5_math_7b"))
    one = Comparison("7b", plan, FOUND)
    assert [(name, found) for name, _, found in (*one.memory(), *one.seconds())] == [
        ("learning", 50.0), ("answering", 60.0), ("rollout", 20.0), ("update", 10.0), ("step", 32.0),
    ]  # fmt: skip
    phases = plan.duration.phases
    update = next(seconds for name, seconds, _ in one.seconds() if name == "update")
    assert update == phases["update"] + phases["old log-probs"]
    heads, _, row = table([one])
    assert len(heads) == len(row) and row[:3] == ("7b", "H100", "16")
    assert row[-1] == f"{plan.duration.step:.1f} / 32.0"
