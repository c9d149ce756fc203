"""Language: the share of letters of a script, so that answers do not mix languages. arXiv:2501.12948, section 2.3"""

import sys
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from isentropic.reward import Answer, Reward


@dataclass(frozen=True)
class Language(Reward):
    """0 to 1; does not apply to an answer without letters. Raises ValueError for a script unknown to Unicode."""

    weight: float  # of it in the sum
    scripts: list[str]  # as Unicode names them: latin, greek, cyrillic, cjk, hiragana, arabic, ...

    def __post_init__(self) -> None:
        for script in self.scripts:
            if not exists(script):
                raise ValueError(
                    f"reward.language.scripts has {script!r}, by which Unicode names no letter; "
                    "latin, greek, cyrillic, cjk, hiragana, katakana, hangul and arabic are some that it does"
                )
        if not self.scripts:
            raise ValueError("reward.language.scripts=[] allows no letter; latin is one")

    def __call__(self, answers: Sequence[Answer]) -> list[float | None]:
        wanted = {script.upper() for script in self.scripts}
        return [share(answer.text, wanted) for answer in answers]


def share(text: str, wanted: set[str]) -> float | None:
    """Of the letters of a text, those of the wanted scripts, 0 to 1; None for a text without letters."""
    letters = Counter(filter(str.isalpha, text))
    own = sum(count for letter, count in letters.items() if script_of(letter) in wanted)
    return own / letters.total() if letters else None


@lru_cache(maxsize=65_536)
def script_of(letter: str) -> str:
    """The first word of a letter's Unicode name, as in LATIN, CYRILLIC, CJK; empty for one without a name."""
    return unicodedata.name(letter, "").partition(" ")[0]


def exists(script: str) -> bool:
    """Whether any letter of Unicode is of this script, in either case."""
    return any(
        script_of(letter) == script.upper() for letter in map(chr, range(sys.maxunicode + 1)) if letter.isalpha()
    )
