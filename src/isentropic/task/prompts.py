"""How a question becomes a prompt."""

PLACE = "{question}"


def check_template(template: str) -> None:
    """Raises ValueError for a template without a place for the question."""
    if PLACE not in template:
        raise ValueError(f"task.template={template!r} has no place for the question; it must contain {PLACE}")


def fill(template: str, question: str) -> str:
    """Replaces only the one name, so that other braces, as in \\boxed{}, need no escaping."""
    return template.replace(PLACE, question)
