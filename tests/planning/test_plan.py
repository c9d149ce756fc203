from isentropic.commands.plan import composed, planned
from isentropic.planning.memory import GIB
from isentropic.planning.plan import summary, text


def test_a_plan_reads_as_a_table_and_as_plain_numbers():
    plan = planned(composed("experiment=stare_qwen2_5_math_7b"))
    said, numbers = text(plan), summary(plan)
    assert said.startswith("Qwen/Qwen2.5-Math-7B: 7.62 B parameters on 16 x H100, each with 1/16 of it\n")
    assert "All of it fits." in said and numbers["advice"] == []
    assert numbers["parameters"] == 7_615_616_512
    assert numbers["memory"]["update"]["AdamW"] == 8 * 7_615_616_512 / 16 / GIB
    assert abs(sum(numbers["seconds"].values()) - numbers["step_seconds"]) < 1e-9
    assert numbers["gpu_hours"] == plan.hours > 16 * 5000 * plan.duration.step / 3600


def test_what_does_not_fit_stands_at_the_end():
    plan = planned(composed("experiment=dapo_qwen2_5_32b", "trainer.num_nodes=1"))
    assert text(plan).splitlines()[-1] == plan.advice[-1]
    assert any("take cards with more memory" in sentence for sentence in plan.advice)
