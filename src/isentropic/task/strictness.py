"""What counts as equal: ours, or what papers and frameworks pay by. docs/equality.md"""

STRICTNESS = ("strict", "math_verify", "minerva", "dapo")


def check_strictness(strictness: str) -> None:
    """Raises ValueError for a name that is none of STRICTNESS."""
    if strictness not in STRICTNESS:
        raise ValueError(
            f"task.strictness={strictness} is none of {', '.join(STRICTNESS)}, which docs/equality.md explains"
        )
