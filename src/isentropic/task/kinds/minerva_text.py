"""Minerva's spelling of a final answer, text for text."""

import re

UNITS = (
    *(
        "square",
        "ways",
        "integers",
        "dollars",
        "mph",
        "inches",
        "hours",
        "km",
        "units",
        r"\ldots",
        "sue",
        "points",
        "feet",
    ),
    *("minutes", "digits", "cents", "degrees", "cm", "gm", "pounds", "meters", "meals", "edges", "students"),
    *(
        "childrentickets",
        "multiples",
        r"\text{s}",
        r"\text{.}",
        "\\text{\ns}",
        r"\text{}^2",
        r"\text{}^3",
        "\\text{\n}",
    ),
    *(r"\text{}", r"\mathrm{th}", r"^\circ", r"^{\circ}", r"\;", r",\!", "{,}", '"', r"\dots"),
)
REPLACED = (
    *(("an ", ""), ("a ", ""), (".$", "$"), (r"\$", ""), (r"\ ", ""), (" ", ""), ("mbox", "text")),
    *((r",\text{and}", ","), (r"\text{and}", ","), (r"\text{m}", r"\text{}"), *((unit, "") for unit in UNITS)),
)
OPENED = (
    (r"([^$]*)(\$)([^$]*)(\$)(.*)", r"$\3$"),
    *((rf"(\\{font}\{{)(.*?)(\}})", r"\2") for font in ("text", "textbf", "overline")),
    (r"(\\boxed\{)(.*)(\})", r"\2"),
    (r"(frac)([^{])(.)", r"frac{\2}{\3}"),
    (r"(sqrt)([^{])", r"sqrt{\2}"),
)


def minerva_text(answer: str) -> str:
    """Minerva's normalisation of a final answer (arXiv:2206.14858, appendix D.1)."""
    answer = answer.split("=")[-1]
    for old, new in REPLACED:
        answer = answer.replace(old, new)
    for pattern, new in OPENED:
        answer = re.sub(pattern, new, answer)
    answer = answer.replace("$", "")
    return (answer.replace(",", "") if answer.replace(",", "").isdigit() else answer).strip()
