"""What counts as equal: ours, or what papers and frameworks pay by. docs/equality.md"""

STRICTNESS = ("strict", "math_verify", "minerva", "dapo")


def check_strictness(strictness: str) -> None:
    if strictness not in STRICTNESS:
        raise ValueError(
            f"task.strictness={strictness} is none of {', '.join(STRICTNESS)}, which docs/equality.md explains"
        )
