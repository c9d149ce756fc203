"""Answers that are no formula: a letter out of several, a time of day, words."""

import re

CHOICE = re.compile(
    r"(?:option |choice |Option |Choice )?(?:([A-J])|\(\s?([A-Ja-j])\s?\)|([A-Ja-j])[).:])(?:[).:]*\s(.{0,300}))?"
)
CLOCK = re.compile(r"(\d{1,4}(?:\s?:\s?\d{1,4}){1,3})\s?([ap])?\.?\s?(?:m\.?)?", re.IGNORECASE)
SEVERAL = re.compile(r"\(?[A-J]\)?(?:\s?[,;]?\s?(?:and\s|和)?\s?\(?[A-J]\)?){1,9}")
ALTERNATIVE = re.compile(r"\b(?:or|and|either|not|maybe)\b|[,/&;]\s?\(?[A-J]\b|\([A-J]\)|(?<![A-Za-z])[A-J][).:]\s")
QUOTES = re.compile(r"[\s\"'.,;:!*_`]+")
SHORT_WORDS = frozenset(["yes", "no", "true", "false", "odd", "all"])
ARTICLE = re.compile(r"\A(?:an?|the)\s(?=[a-z]{3})", re.IGNORECASE)


def is_choice(gold: str, answer: str) -> bool:
    """A, (A), A. some text; a gold of a letter with its text is met by the letter."""
    wanted, found = CHOICE.fullmatch(gold), CHOICE.fullmatch(answer)
    if not wanted or not found or ALTERNATIVE.search(found[4] or ""):
        return False
    bare = found[1] and (found[4] or "") and not re.match(r"[^.):]*[A-J]\)?[.):]", answer)  # A text: may be a sentence
    return not bare and letter(wanted) == letter(found)


def letter(choice: re.Match[str]) -> str:
    """Of a choice such as (B), in capitals."""
    return (choice[1] or choice[2] or choice[3]).upper()


def choices(text: str) -> set[str]:
    """Of several options: A, C and D, or ACD. Empty for anything else."""
    return set(re.findall("[A-J]", text)) if SEVERAL.fullmatch(text) else set()


def same_time(gold: str, answer: str) -> bool:
    """12:00 and 12:00 PM: the half of the day may be left out."""
    wanted, found = CLOCK.fullmatch(gold), CLOCK.fullmatch(answer)
    if not wanted or not found:
        return False
    halves = {(half[2] or "").casefold() for half in (wanted, found)} - {""}
    return len(halves) < 2 and [*map(int, wanted[1].split(":"))] == [*map(int, found[1].split(":"))]


def same_words(gold: str, answer: str, prose: bool) -> bool:
    """Words in any case; of few letters, which may be symbols, only the first may be another."""
    wanted, found = plain(gold), plain(answer)
    if not wanted or wanted.casefold() != found.casefold():
        return False
    word = wanted.isalpha() and len(wanted) > 1
    return prose or (word and (len(wanted) > 3 or wanted.casefold() in SHORT_WORDS or wanted[1:] == found[1:]))


def plain(text: str) -> str:
    """Without quotation marks and an article before it."""
    return QUOTES.sub("", ARTICLE.sub("", text))
