r"""One spelling of the same: delimiters, fonts, spaces, scripts and signs that say nothing about a value."""

# ruff: noqa: RUF001  signs of other scripts are what this is about
import re
import unicodedata

DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\[", r"\]"), (r"\(", r"\)"), ("**", "**"), ("__", "__"), ("`", "`"))
SIGNS = {
    **dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\u2014\ufe63\uff0d", "-"),
    **{"×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∗": "*", "÷": r"\div ", "√": r"\surd ", "∞": r"\infty "},
    **{"≤": r"\leq ", "≥": r"\geq ", "≠": r"\neq ", "∈": r"\in ", "∪": r"\cup ", "±": r"\pm ", "°": r"^\circ "},
    **{"∅": r"\emptyset ", "、": ", ", "，": ", ", "；": "; ", "。": ". ", "：": ": ", "（": "(", "）": ")", "％": "%"},
    **{"′": "'", "’": "'", "“": '"', "”": '"', "…": r"\ldots ", "\u00a0": " ", "\u202f": " ", "\u2009": " "},
    **{"⁄": "/", "∕": "/", "،": ", ", "٪": "%", "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "≈": r"\approx ", "￥": "¥"},
    **{"\u200b": "", "\u200e": "", "\u200f": "", "\ufeff": "", "\u2060": "", "\u2061": ""},
}
GREEK = {
    unicodedata.lookup(f"GREEK {size} LETTER {name.upper().replace('LAMBDA', 'LAMDA')}"): rf"\{made} "
    for name in (
        *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "lambda", "mu", "nu", "xi", "pi"),
        *("rho", "sigma", "tau", "phi", "chi", "psi", "omega"),
    )
    for size, made in (("SMALL", name), ("CAPITAL", name.capitalize()))
}
RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
FRACTION = re.compile("[¼-¾⅐-⅞↉]")  # one sign
FONTS = re.compile(
    r"\\(?:text|mathrm|textbf|textit|mathbf|mathit|mathsf|mathtt|mbox|hbox|operatorname\*?|textrm|texttt|emph|boldsymbol"
    r"|bm|rm|bf|it|underline|boxed|fbox|ensuremath|textnormal|textsf)\s{0,3}\{([^{}]*)\}"
)
UPRIGHT = (r"\text", r"\mathrm", r"\mbox", r"\hbox", r"\operatorname")
SIZES = re.compile(
    r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|limits|nolimits|scriptstyle|large|Large|LARGE|huge|Huge|small|normalsize|tiny|rm|bf|it|quad|qquad|enspace"
    r"|hfill|noindent)(?![A-Za-z])\.?"
)
COLOURS = re.compile(r"\\(?:textcolor|color)\s?\{[A-Za-z0-9!]{1,20}\}")
LIBRARIES = re.compile(r"(?<![\w.])(?:np|numpy|math|sp|sympy)\.(?=[a-z])")
TAGS = re.compile(r"</?[A-Za-z]{1,12}/?>|<\|[a-z_]{1,30}\|>")
POWER = re.compile(r"(?<=[\w)\]])\s?\*\*\s?(?=[\w({-])")
SAME = (
    *(
        (r"\dfrac", r"\frac"),
        (r"\tfrac", r"\frac"),
        (r"\cfrac", r"\frac"),
        (r"\leqslant", r"\leq"),
        (r"\geqslant", r"\geq"),
    ),
    *(
        (r"\dbinom", r"\binom"),
        (r"\tbinom", r"\binom"),
        (r"\lt", "<"),
        (r"\gt", ">"),
        (r"\lbrace", r"\{"),
        (r"\rbrace", r"\}"),
    ),
    *(
        (r"\varnothing", r"\emptyset"),
        (r"\dots", r"\ldots"),
        (r"\cdots", r"\ldots"),
        (r"\ast", "*"),
        (r"\degree", r"^\circ"),
    ),
    *(
        (r"\infin", r"\infty"),
        (r"\operatorname", ""),
        (r"\div", "/"),
        (r"\lbrack", "["),
        (r"\rbrack", "]"),
        (r"\vert", "|"),
        (r"\mid", "|"),
    ),
    *((r"\ne", r"\neq"), (r"\le", r"\leq"), (r"\ge", r"\geq"), (r"\colon", ":"), (r"\to", r"\rightarrow")),
)
RENAMED = {old: new for old, new in SAME}
COMMAND = re.compile(r"\\[A-Za-z]+")
SPACE = re.compile(r"(?<!\\)\\[;: ]|(?<=[\w}$)])~|\\(?:thinspace|medspace|thickspace)(?![A-Za-z])")
THIN = re.compile(r"(?<=\d)\s?(?:,?\\[!,]|\{,\}|\\,)\s?(?=\d{3}(?!\d))")


OVER = re.compile(r"\{([^{}]{1,200})\\over(?![A-Za-z])([^{}]{1,200})\}")
EMPTY = re.compile(r"\\\{\s?\\\}")
BREAK = re.compile(r"\\\\\s?\[[^\]]{1,9}\]")  # a new row, some way down
INLINE = re.compile(
    r"(?<!\\)\\[()\[\]]|(?<!\\)\$(?!\s?-?[\d.]{1,40}[^$]*\Z)"
)  # of formulas in a sentence, not of money


def normal(text: str) -> str:
    """The text in the one spelling that everything after it reads. Linear, as no pattern looks further than it must."""
    if not text.isascii():
        text = "".join(map(sign, text)).replace("}^{", "").replace("}_{", "")  # raised signs in a row are one exponent
    text = LIBRARIES.sub("", COLOURS.sub("", TAGS.sub("", text)))
    text = POWER.sub("^", text).replace("**", " ").replace("`", " ") if "**" in text or "`" in text else text
    text = re.sub(r"\\begin\{array\}\s{0,3}\{[^{}]*\}", r"\\begin{matrix}", text).replace(
        r"\end{array}", r"\end{matrix}"
    )
    text = OVER.sub(r"\\frac{\1}{\2}", text) if "\\over" in text else text
    text = BREAK.sub(lambda _: r"\\", THIN.sub("", text))
    text = SPACE.sub(" ", text).replace(r"\!", "").replace(r"\,", " ").replace(r"\$", "$").replace(r"\%", "%")
    for _ in range(3):  # fonts within fonts
        text = FONTS.sub(words, text)
    text = COMMAND.sub(lambda found: RENAMED.get(found[0], found[0]), SIZES.sub(" ", text))
    text = EMPTY.sub(lambda _: r"\emptyset", text)
    return trimmed(INLINE.sub(" ", trimmed(text)))


def sign(letter: str) -> str:
    """One letter in ASCII or LaTeX: Greek, signs, scripts, fractions, digits of any alphabet, full-width forms."""
    if letter.isascii():
        return letter
    if letter in SIGNS or letter in GREEK:
        return SIGNS.get(letter) or GREEK.get(letter, "")
    if raised := letter.translate(RAISED) if letter in "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ" else "":
        return f"^{{{raised}}}"
    if letter in "₀₁₂₃₄₅₆₇₈₉":
        return f"_{{{letter.translate(LOWERED)}}}"
    if FRACTION.match(letter):
        numerator, _, denominator = unicodedata.normalize("NFKC", letter).partition("\u2044")
        return rf"\frac{{{numerator}}}{{{denominator}}}"
    if "\U0001d400" <= letter <= "\U0001d7ff":  # letters and digits of mathematics, in any font
        return sign(unicodedata.normalize("NFKC", letter))
    digit = unicodedata.digit(letter, None)
    if digit is not None and unicodedata.category(letter) == "Nd":
        return str(digit)
    return chr(ord(letter) - 0xFEE0) if "\uff01" <= letter <= "\uff5e" else letter


def words(found: re.Match[str]) -> str:
    r"""\text{ cm} apart from what it follows, and still together with an exponent."""
    inside = found[1].strip()
    if len(inside) > 1:
        return f" {inside} "
    return f" {inside}" if found[0].startswith(UPRIGHT) else inside


def trimmed(text: str) -> str:
    """Without delimiters around it, spaces doubled, or a full stop."""
    text = " ".join(text.split())
    for _ in range(4):
        before = text
        text = quoted(text.strip().strip("*#_")).lstrip("= ").rstrip(",;:").strip()
        text = text[:-1].rstrip() if text.endswith(".") and not text.endswith("..") else text
        for left, right in DELIMITERS:
            if text.startswith(left) and text.endswith(right) and len(text) > len(left) + len(right):
                inner = text[len(left) : -len(right)]
                text = inner.strip() if left not in inner and right not in inner else text
        if text == before:
            break
    return text


def quoted(text: str) -> str:
    """Without quotation marks around all of it; y' keeps its prime."""
    around = len(text) > 2 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if around else text
