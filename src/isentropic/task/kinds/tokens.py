"""Tokens of a formula: numbers, commands, letters, signs; and which names are known."""

import re

TOKEN = re.compile(r"\\[A-Za-z]+|\\.|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,4}(?![\w.]))?|[A-Za-z]+|\S")
_FUNCTIONS = (
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log lg exp sqrt abs floor ceil max min gcd lcm Re "
    "Im arg det dim ker"
)
FUNCTIONS = frozenset(_FUNCTIONS.split())
ALIASES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "arccot": "arccot", "cosec": "csc"}
_GREEK = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta lambda mu nu xi pi rho sigma tau phi varphi "
    "chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega hbar ell aleph infty emptyset mho partial ldots "
    "nabla"
)
GREEK = frozenset(_GREEK.split())
WORDS = {"infinity": "infty", "inf": "infty", "oo": "infty", "Infinity": "infty"}
_DECORATED = "mathbb mathcal mathfrak mathscr hat bar vec dot ddot tilde overline widehat widetilde"
DECORATED = frozenset(_DECORATED.split())
_APPLIED = "f g h F G H u O o J Theta Omega Gamma zeta phi psi delta"
APPLIED = frozenset(_APPLIED.split())


def tokens_of(text: str) -> list[str]:
    """Of LaTeX or plain text; words are split into what they may stand for."""
    tokens = list[str]()
    for token in TOKEN.findall(text):
        tokens += split(token) if token[0].isalpha() else [token]
    return tokens


def split(word: str) -> list[str]:
    """Letters next to each other: a function or constant by name, else symbols; a long word is one symbol."""
    word = WORDS.get(ALIASES.get(word, word), ALIASES.get(word, word))
    if word in FUNCTIONS or word in GREEK:
        return [f"\\{word}"]
    return list(word) if len(word) <= 3 else [word]


def known(name: str) -> bool:
    """Whether a command is read at all."""
    return name in FUNCTIONS or name in GREEK or name in DECORATED or name in ("frac", "binom", "sqrt", "surd")
