"""STARE's reward (arXiv:2606.19236): what stands after the reasoning, right if any of three readings says so.

hp-luo/STARE bffb9e7, verl/utils/reward_score/math_stare.py: math-verify on the text, math-verify on its last box, and
MathRuler's rule on the box.
"""

# ruff: noqa: RUF001  colons of other scripts are what this is about
from isentropic.evaluation.grade_by_rule import CagedGrader
from isentropic.task.answers import very_last_box
from isentropic.tools.cage import STRICT, Cage

ENDS = ("</thinking>", "</think>")  # of the reasoning
HEADS = {  # the first that is there, and the colon that is left out behind it
    **{"最终答案": "：", "**答案**": "：", "Final Answer": ":", "答案：": "：", "**Answer**": ":", "Answer:": ":"},
    **{"总结": "：", "Conclusion": ":"},
}
FINAL = "<!-- Final Answer -->", "<!-- Finish Answer -->"
SUMMARY = "<!-- Summarize Answer -->", "<!-- Finish Response -->"
TOKENS = ("<|end_of_solution|>", "<|begin_of_solution|>", "<|end_of_thought|>", "<|begin_of_thought|>")
PARAGRAPHS, TAIL = 10, 300


class Stare(CagedGrader):
    """A text that opens its reasoning and does not close it has no answer, nor one that stops where it closes.

    `closed`: nor one without `</think>` at all, as where the prompt has opened the reasoning.
    """

    def __init__(
        self, name: str, closed: bool, workers: int, timeout: float, memory: float, cage: Cage = STRICT
    ) -> None:  # fmt: skip
        super().__init__(name, "stare", workers, timeout, memory, cage)
        self.closed = closed

    def found(self, text: str) -> str | None:
        after = after_reasoning(text, self.closed)
        return None if after is None else answer_part(after).strip() or None

    def markers(self) -> list[str]:
        return [ENDS[1]] if self.closed else []

    def shown(self, answer: str) -> str:
        box = very_last_box(answer)
        return answer if box is None else box


def after_reasoning(text: str, closed: bool) -> str | None:
    """What follows the last `<answer>`, or the end of the reasoning; None if that was opened and never ended."""
    if "<answer>" in text:
        return text.rpartition("<answer>")[2].partition("</answer>")[0]
    for end in ENDS:
        if end in text:
            return text.rpartition(end)[2]
    return None if closed or "<think>" in text else text


def answer_part(text: str) -> str:
    """What follows the first of its headings that is there; else its end."""
    head = next((one for one in HEADS if one in text), None)
    if FINAL[0] in text:
        part = text.split(FINAL[0])[1].partition(FINAL[1])[0]
    elif SUMMARY[0] in text:
        part = text.rpartition(SUMMARY[0])[2].partition(SUMMARY[1])[0]
    elif head is not None:
        part = text.rpartition(head)[2].replace(HEADS[head], "").replace("**", "")
    else:
        part = "\n\n".join(text.split("\n\n")[-PARAGRAPHS:])[-TAIL:]
    for token in TOKENS:
        part = part.replace(token, "")
    return part
