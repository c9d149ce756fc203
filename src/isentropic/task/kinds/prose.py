r"""The answer in a sentence, and no answer where the sentence names several or takes it back.

`The answer is 72, in total, so the farmer earns that much.` is 72; `13 or 14`, `not 13`, `about 13`, `13 in 2 days` are
nothing.
"""

import re

from isentropic.task.kinds.literals import number
from isentropic.task.kinds.units import changes, named

PHRASE = re.compile(
    r"(?:####|答案(?:应该|应)?(?:是|为|選|选)?|(?:故|应|所以)?[选選](?:择|项|擇|項)?|答え(?:は)?|정답(?:은)?|답(?:은)?)\s?[:=]?\s?"
    r"|(?<!\w)(?:answer|result|solution|option|choice|respuesta|réponse|reponse|antwort|lösung|resposta|risposta|ответ"
    r"|odpowiedź|cevap|الجواب|उत्तर)(?:\s?(?:is|are|equals?|es|est|ist|lautet|é|è|to be)(?!\w))?(?!\w)\s?[:=]?\s?",
    re.IGNORECASE,
)
NUMBERS = re.compile(
    r"(?<![A-Za-z0-9_.])[-+]?\s?(?:[$€£¥₹]\s?)?(?:\\frac\s?\{?-?\d{1,30}\}?\s?\{?\d{1,30}\}?|"
    r"\d[\d,]{0,60}(?:\.\d{1,60})?(?:\s?\\frac\s?\{\d{1,30}\}\s?\{\d{1,30}\})?(?:\s\d{1,30}/\d{1,30}|\s?/\s?\d{1,30})?)"
    r"(?:\s?%|\s?\^\s?\{?\s?\\circ\s?\}?)?"
)
DENIED = re.compile(r"\b(?:not|never|wrong|incorrect|false|cannot)\b[^.!?]{0,40}\Z", re.IGNORECASE)
NAMING = re.compile(r"\d|\\|\b[A-JXYa-jm-z]\b|[=^_]|\b(?:or|and|not)\b")
OPERATORS = re.compile(r"[+*/^=<>\\|~≈¬?&_#@{}()\[\]]|\d|(?<!\w)-|-(?=\s)")
DONE = re.compile(  # to a number, which stands as ;
    r"(?<!\w)(?:(?:squares?|cubes?|roots?|inverse|reciprocal|opposite|negati\w{1,3}|successor|predecessor|multiples?|powers?"
    r"|divisors?|factors?|digits?|percent|parts?|fractions?|complement|out)\s+(?:of|in)|to\s+the|from|before|after|until|till"
    r"|squares?|cubes?|predecessor|successor|(?:minimum|maximum)\s+of)\s+(?:the\s+)?;|;\s*(?:by|x)\s*;|;\s*(?:minimum|maximum)\b",
    re.IGNORECASE,
)
WORD = re.compile(r"\s?([^\W\d_]+)")
COPULA = re.compile(r"\s(?:is|are|equals)\s(?:both\s)?", re.IGNORECASE)
QUANTITY = re.compile(  # what a sentence may be about
    r"\b(?:sum|difference|product|point|power|logs?|roots?|pairs?|(?:least|largest|greatest)\svalue)\b|\b[fgh](?:\(\w\)|(?!\w))",
    re.IGNORECASE,
)
DOUBTED = re.compile(
    r"\b(?:whether|nobody|who|what|which|why|how|doubt\w*|den\w{2,4}|claim\w*|false|untrue|no)\b", re.IGNORECASE
)
LONGEST, LONGEST_WORD, SHORTEST_WORD = 600, 20, 4


def has_words(text: str) -> bool:
    """Two letters beside each other, LaTeX commands left out, or any letter of an East Asian script."""
    return bool(re.search(r"[^\W\d_]{2,}|[\u2e80-\uffff]", re.sub(r"\\[A-Za-z]+", "", text)))


def spoken(text: str) -> list[str]:
    """What a sentence in normal spelling may say the answer is: what follows the last phrase, then its only number."""
    if not has_words(text) or len(text) > LONGEST:
        return []
    before, *afters = PHRASE.split(text)
    if DENIED.search(before) or not agree(afters):
        return []
    after = (afters[-1].lstrip(" :*").rstrip(" .:*") if afters else "") or (before if len(afters) < 2 else "")
    found = [after] if after and after not in (text, before) else complement(text) if not afters else []
    if number(after) is not None:
        return found  # with its unit
    only = only_number(after)
    return [*found, only] if only else found


def complement(text: str) -> list[str]:
    """What `The function is odd` says that something is; nothing where the words before say more, or no verb does."""
    before, *afters = COPULA.split(text)
    before = QUANTITY.sub("", before)
    if len(afters) != 1 or not afters[0] or NAMING.search(before) or DOUBTED.search(before) or changes(before):
        return []
    return afters


def agree(afters: list[str]) -> bool:
    """Of several phrases (`Answer: the answer is 5`), only the last may name anything, or all the same number."""
    earlier = [after for after in afters[:-1] if NAMING.search(after)]
    numbers = {only_number(after) for after in (*earlier, *afters[-1:])}
    return not earlier or (len(numbers) == 1 and None not in numbers)


def only_number(text: str) -> str | None:
    """The one number of a sentence without anything that could make it another."""
    numbers = list(NUMBERS.finditer(text))
    if any(glued(text[found.end() : found.end() + LONGEST_WORD]) for found in numbers):
        return None
    around = NUMBERS.sub(" ; ", text)
    if not numbers or changes(around) or OPERATORS.search(around) or DONE.search(around):
        return None
    written = {with_unit(found, text) for found in numbers}
    read = {number(one) for one in written}
    if len(read) != 1 or None in read:
        return None
    return written.pop()


def glued(tail: str) -> bool:
    """Whether letters that are neither a unit nor a word stand right behind a number: 5th, 5x."""
    word = re.match("[A-Za-z]+", tail)
    return word is not None and len(word[0]) < SHORTEST_WORD and not named(word[0])


def with_unit(found: re.Match[str], text: str) -> str:
    """A number, and the unit after it if it is one that can be converted."""
    digits = found[0].strip().rstrip(",").strip()
    word = WORD.match(text, found.end())
    return f"{digits} {word[1]}" if word and named(word[1]) and not digits.endswith("%") else digits
