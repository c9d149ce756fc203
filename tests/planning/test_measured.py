from dataclasses import replace

from isentropic.commands.plan import composed, planned
from isentropic.planning.measured import Comparison, table

FOUND = {
    "memory": {"update_used": 50.0, "rollout_used": 60.0},
    "seconds": {"median": {"sample": 20.0, "update": 10.0, "sync": 0.5, "step": 32.0}, "steps": [{}, {}]},
}


def test_what_was_planned_stands_before_what_was_measured():
    plan = planned(composed("experiment=stare_qwen2_5_math_7b"))
    one = Comparison("7b", plan, FOUND)
    assert [(name, found) for name, _, found in (*one.memory(), *one.seconds())] == [
        ("learning", 50.0), ("answering", 60.0), ("rollout", 20.0), ("update", 10.0), ("sync", 0.5), ("step", 32.0),
    ]  # fmt: skip
    phases = plan.duration.phases
    update = next(seconds for name, seconds, _ in one.seconds() if name == "update")
    assert update == phases["update"] + phases["old log-probs"]
    heads, _, row = table([one])
    assert len(heads) == len(row) and row[:3] == ("7b", "H100", "16")
    assert row[-1] == f"{plan.duration.step:.1f} / 32.0"


def test_a_first_rollout_tells_only_what_no_compiling_and_no_later_state_change():
    plan = planned(composed("experiment=stare_qwen2_5_math_7b"))
    twice = replace(plan, work=replace(plan.work, updates=2))
    one = Comparison("7b", twice, FOUND | {"seconds": FOUND["seconds"] | {"steps": [{}]}})
    assert [name for name, _, _ in (*one.memory(), *one.seconds())] == ["learning", "rollout"]
    heads, _, row = table([one])
    assert len(heads) == len(row) and row[4] == row[6] == row[7] == row[8] == "" and row[3] and row[5]
    assert list(Comparison("7b", plan, one.found).memory()) == [], "AdamW had no state yet"
