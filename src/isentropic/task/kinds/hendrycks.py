r"""The spelling of answers that the MATH data set came with (arXiv:2103.03874), on which PRM800K's and Qwen's build.

It is text for text: \frac12, 1/2 and 0.5 are \frac{1}{2}; a name before "=" goes, and so do units in \text{ }.
"""

import re

WHOLE_TEXT = re.compile(r"\\text\{(.+?)\}")
REMOVED = ("\n", r"\!"), (r"\left", r"\right", r"^{\circ}", r"^\circ", r"\$")
SLASHED = re.compile(r"(-?\d+)/(-?\d+)")


def math_text(answer: str) -> str:
    """Of an answer that breaks a rule (`\\frac` with nothing behind it, two units), what stands there."""
    answer = answer.strip()
    if whole := WHOLE_TEXT.fullmatch(answer):
        answer = whole[1].strip()
    text = answer
    for sign in REMOVED[0]:
        text = text.replace(sign, "")
    text = text.replace("\\\\", "\\").replace("tfrac", "frac").replace("dfrac", "frac")
    for sign in REMOVED[1]:
        text = text.replace(sign, "")
    if text.count(r"\text{ ") > 1:
        return answer
    text = text.partition(r"\text{ ")[0].replace(r"\%", "").replace(" .", " 0.").replace("{.", "{0.")
    text = f"0{text}" if text.startswith(".") else text
    text = braced_roots(without_name(text))
    text = braced_fractions(text.replace(" ", ""))
    return r"\frac{1}{2}" if text == "0.5" else slashed(text)


def without_name(text: str) -> str:
    """The right side of `k = 5`, where the left has two signs at most."""
    left, equals, right = text.partition("=")
    return right if equals and "=" not in right and len(left) <= 2 else text


def braced_roots(text: str) -> str:
    r"""The text with \sqrt3 as \sqrt{3}."""
    return re.sub(r"\\sqrt([^{])", r"\\sqrt{\1}", text)


def braced_fractions(text: str) -> str:
    r"""\frac12 and \frac1{72} with all their braces; a text with a \frac that lacks a part stays as it is."""
    first, *parts = text.split(r"\frac")
    made = first
    for part in parts:
        if part.startswith("{"):
            made += rf"\frac{part}"
        elif len(part) < 2:
            return text
        else:
            top, bottom, rest = part[0], part[1], part[2:]
            made += rf"\frac{{{top}}}" + (f"{{{bottom}}}" if bottom != "{" else "{") + rest
    return made


def slashed(text: str) -> str:
    r"""3/4 as \frac{3}{4}, where both are integers as one writes them."""
    match = SLASHED.fullmatch(text)
    if match is None or match[0] != f"{int(match[1])}/{int(match[2])}":
        return text
    return rf"\frac{{{match[1]}}}{{{match[2]}}}"
