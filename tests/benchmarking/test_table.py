from isentropic.benchmarking.table import text

MEASURED = {
    "model": {"name": "1.5b", "parameters": 1.54e9},
    "ranks": 4,
    "card": "NVIDIA H100",
    "shapes": {"prompts": 64, "group_size": 8, "prompt_tokens": 128, "response_tokens": 1024},
    "seconds": {
        "median": {"step": 30.0, "sample": 12.0, "sleep": 1.0, "update": 16.0, "read": 4.0, "sync": 1.0},
        "first": {"step": 60.0, "sample": 20.0, "update": 39.0, "sync": 1.0},
    },
    "tokens_per_second_and_rank": {"step": 19661.0},
    "memory": {},
}


def test_parts_of_a_phase_stand_below_it():
    lines = text(MEASURED).splitlines()
    assert lines[1] == "1.5b: 1.54 B parameters, 4 x NVIDIA H100; 64 x 8 answers of 128 + 1024 tokens"
    assert next(line.split() for line in lines if "  read" in line) == ["read", "4.00"]
    assert next(line.split() for line in lines if line.startswith("step")) == ["step", "30.00", "60.00"]
    assert any(line.split() == ["tokens/s", "and", "GPU,", "step", "19,661"] for line in lines)


def test_a_step_that_draws_ahead_has_its_wait():
    assert not any(line.startswith("wait") for line in text(MEASURED).splitlines())
    took = MEASURED["seconds"]["median"] | {"wait": 2.0}
    lines = text(MEASURED | {"seconds": MEASURED["seconds"] | {"median": took}}).splitlines()
    assert next(line.split() for line in lines if line.startswith("wait")) == ["wait", "2.00"]


def test_what_was_planned_stands_beside_it():
    seconds = {"rollout": 10.0, "sleep": 0.5, "old log-probs": 3.0, "update": 12.0, "weight sync": 1.5}
    planned = {"seconds": seconds, "step_seconds": 17.0, "peaks": {"update": 35.0}, "advice": ["All is well."]}
    lines = text(MEASURED | {"planned": planned, "mfu": {"all parameters": 0.41}}).splitlines()
    assert next(line.split() for line in lines if line.startswith("update")) == ["update", "16.00", "39.00", "15.00"]
    assert next(line.split() for line in lines if line.startswith("sleep")) == ["sleep", "1.00", "0.50"]
    assert next(line.split() for line in lines if line.startswith("step")) == ["step", "30.00", "60.00", "17.00"]
    assert lines[-1] == "All is well."


def test_a_peer_is_told_with_the_ratio():
    peer = {"name": "trl", "step": 60.0, "seconds": [70.0, 60.0], "memory": {"used": 43.0}, "exit_code": 0}
    found = MEASURED | {"peer": peer, "ratio": {"seconds": 0.5, "used": 0.9}}
    said = ["trl: 60.0 s a step, 43.0 GiB of the card", "ours is 0.50 of its seconds; it took 30.0"]
    said += ["ours is 0.90 of its memory"]
    assert text(found).splitlines()[-3:] == said
    stopped = found | {"peer": peer | {"exit_code": -9}}
    assert text(stopped).splitlines()[-4:] == [*said, "it ended with exit code -9 after 2 rollouts"]


def test_a_peer_that_did_not_come_to_its_first_rollout_has_no_line():
    assert "trl" not in text(MEASURED | {"peer": {"name": "trl", "exit_code": -15}})
