"""Where Qwen2.5-Math's parser finds an answer in a text: QwenLM/Qwen2.5-Math a45202b, evaluation/parser.py."""

import re

NUMBER = re.compile(r"-?\d*\.?\d+")


def found(text: str) -> str | None:
    """The answer in a text: after "final answer is $", in the last box, after "he answer is", or its last number."""
    if "final answer is $" in text and "$. I hope" in text:
        answer = text.split("final answer is $", 1)[1].split("$. I hope", 1)[0]
    elif "boxed" in text:
        answer = boxed(text.rpartition("boxed")[2])
    elif "he answer is" in text:
        answer = text.rpartition("he answer is")[2]
    elif "final answer is" in text:
        answer = text.rpartition("final answer is")[2]
    elif "答案是" in text:
        answer = text.split("答案是")[1].strip().split("\n\n")[0]
    else:
        numbers = NUMBER.findall(text.replace(",", ""))
        answer = numbers[-1] if numbers else ""
    answer = re.sub(r"\n\s*", "", answer.strip())
    return answer.removeprefix(":").removesuffix(".").removesuffix("/") or None


def boxed(after: str) -> str:
    """What the braces hold; all of it where they are not closed, and up to a $ where there are none."""
    if not after.startswith("{"):
        return after.partition("$")[0]
    depth = 0
    for place, sign in enumerate(after):
        depth += (sign == "{") - (sign == "}")
        if not depth:
            return after[1:place]
    return after[1:]
