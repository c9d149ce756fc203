"""Grades a text by the known answer, behind the guard. Called in a caged process only."""

from contextlib import suppress
from itertools import product

from isentropic.task import Status
from isentropic.task.equality import grade
from isentropic.task.equality import judge as compare
from isentropic.tools.guard import guard

FORMS = (r"\frac{3}{7}", r"3\sqrt{2}+1", r"(-1, \infty)", "x^2+3x+1", r"\begin{pmatrix}1\\2\end{pmatrix}", r"\{1, 2\}")
for gold, answer in product(FORMS, FORMS):
    with suppress(Exception):
        compare(gold, answer)  # what is loaded and remembered here, every answer finds


def judge(gold: str, text: str, marker: str, strictness: str) -> tuple[float, bool, Status]:
    """Reward, right or not, and the word; a gold that cannot be read is compared as text."""
    guard()
    return grade(gold, text, marker, strictness)
