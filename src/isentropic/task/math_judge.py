"""Finds the final answer in a text and compares it with the known one. Called in a caged process only."""

from isentropic.task import Status
from isentropic.task.answers import final_answer
from isentropic.task.equality import judge as compare
from isentropic.tools.guard import guard


def judge(gold: str, text: str, marker: str) -> tuple[float, bool, Status]:
    guard()
    answer = final_answer(text, marker)
    return compare(gold, answer) if answer else (0.0, False, "unparseable")
