"""Words and signs after a number: units that can be converted, nouns that say nothing, words that change the number."""

import re
from dataclasses import dataclass
from fractions import Fraction

TABLE = {  # dimension: names, and how many of the first one each is
    "length": {"m meter metre": "1", "km kilometer kilometre": "1000", "cm centimeter centimetre": "0.01"}
    | {
        "mm millimeter millimetre": "0.001",
        "nm nanometer": "1e-9",
        "ft foot feet": "0.3048",
        "inch inches in": "0.0254",
    }
    | {"yd yard": "0.9144", "mi mile": "1609.344"},
    "mass": {"g gram gramme": "1", "kg kilogram": "1000", "mg milligram": "0.001", "lb lbs pound": "453.59237"}
    | {"oz ounce": "28.349523125", "ton tonne": "1000000"},
    "time": {
        "s sec second": "1",
        "min minute": "60",
        "h hr hour": "3600",
        "day": "86400",
        "week": "604800",
        "ms": "0.001",
    },
    "year": {"year yr": "1", "month": "1/12"},
    "volume": {"L l liter litre": "1", "mL ml milliliter millilitre": "0.001", "gallon": "3.785411784", "cc": "0.001"},
    "money": {"dollar $ usd bucks": "1", "cent ¢": "0.01"},
    "euro": {"euro € eur": "1"},
    "pound sterling": {"£ gbp": "1"},
    "yen": {"yen ¥ yuan": "1"},
    "rupee": {"rupee ₹ rs": "1"},
    "angle": {"degree deg": "1"},
    "radian": {"radian rad": "1"},
    "temperature": {"celsius": "1"},
    "fahrenheit": {"fahrenheit": "1"},
    "kelvin": {"K kelvin": "1"},
    "force": {"N newton": "1"},
    "energy": {"J joule": "1", "kJ kilojoule": "1000", "eV": "1.602176634e-19", "erg": "1e-7"},
    "power": {"W watt": "1", "kW kilowatt": "1000"},
    "voltage": {"V volt": "1"},
    "current": {"A amp ampere": "1"},
    "frequency": {"Hz hertz": "1", "kHz": "1000", "MHz": "1000000"},
    "pressure": {"Pa pascal": "1", "kPa": "1000", "atm": "101325"},
    "amount": {"mol mole": "1"},
    "charge": {"C coulomb": "1"},
}
UNITS = {
    name: (dimension, Fraction(factor))
    for dimension, kinds in TABLE.items()
    for names, factor in kinds.items()
    for name in names.split()
}
SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
_CHANGING = (  # words that make it another number, several, or none
    "or and not no nor plus minus times over divided multiplied squared cubed half halves quarter quarters third "
    "thirds negative point either maybe perhaps possibly probably except than least most wrong incorrect mod modulo "
    "through between if unless otherwise less more greater fewer below above under up factorial choose root log power "
    "sum difference product isn cannot never neither about approximately roughly almost nearly around only guess "
    "unknown double triple twice score couple pair pairs zero one two three four five six seven eight nine ten eleven "
    "twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy "
    "eighty ninety sin cos tan cot sec csc ln exp sqrt pi infinity infinite nan inf false oder und ou et nicht pas ne "
    "или и не без минус плюс alternatively but dividido entre por más menos bzw oppure albo veya hoặc atau eller vagy "
    "nebo ili approx approximate circa ca ish unequal unlike unlikely doubtful uncertain unsure tentatively presumably "
    "supposedly hopefully nope quadrillion quintillion sextillion lakh crore myriad googol mille milli micro nano kilo "
    "mega giga bn mn tn mil bps ppm ppb permille percentile percentiles quadruple quintuple fold factorials couples "
    "triples close near nearby closer likely tens ones max somewhere anywhere"
)
CHANGING = frozenset(_CHANGING.split())
CHANGING_SIGNS = frozenset("或不非十万萬千百亿億半倍负負零超约")
CHANGING_PHRASES = re.compile(
    "以上|以下|以内|左右|大于|小于|多于|少于|超过|至少|至多|不到|分之|次方|将近|之间|以外|平方根|立方根"
    "|点[一二三四五六七八九]|または|もしくは|あるいは"
    r"|n't(?![a-z])|(?<![a-z])different from|[a-z]fold(?![a-z])"
    r"|(?<![a-z])(?:four|fif|six|seven|eigh|nin|ten|eleven|twelf|hundred|thousand|million|billion|\w{3,6}teen|\w{3,5}tie)ths?"
    "(?![a-z])",
    re.IGNORECASE,
)
AT_LEAST = re.compile("[多余餘来來]")  # right after a number
SPEED = {"mph": "mi/h", "kph": "km/h", "kmh": "km/h"}
SPEEDS = re.compile(r"\b(?:mph|kph|kmh)\b")
WORD = re.compile(r"[^\W\d_]+|[$€£¥₹¢]")
PIECE = re.compile(
    r"\s*(?:([^\W\d_]+\.?|[$€£¥₹¢])\s?(?:\^\s?\{?\s?(-?\d)\s?\}?)?|(/)|[*,()\"']|\.(?!\.)|\\cdot(?![a-z]))"
)
ENDS = frozenset(["minimum", "maximum"])  # of a range, behind a number
MEASURED = re.compile(
    r"(.*?[\d)}\]A-Za-z])\s((?:square|cubic|sq\.?)\s)?([A-Za-z]{2,14})\.?(?:\s?\^\s?\{?\s?([23])\s?\}?)?"
)
FILLING = frozenset(["per", "a", "an", "of", "the", "in", "units", "unit", "total", "each", "all"])


@dataclass(frozen=True)
class Unit:
    """The power of each dimension, and how many of its first units it is; no dimension for nouns."""

    powers: frozenset[tuple[str, int]]
    factor: Fraction


PLAIN = Unit(frozenset(), Fraction(1))


def changes(words: str) -> bool:
    """Whether something in them makes a number beside them another number, several, or none."""
    if not CHANGING_SIGNS.isdisjoint(words) or CHANGING_PHRASES.search(words):
        return True
    return any(word in CHANGING or word.removesuffix("s") in SCALES for word in map(str.casefold, WORD.findall(words)))


def unit(tail: str) -> tuple[Unit, int] | None:
    """What stands after a number, as a unit and a scale (thousand); None if it may be something else."""
    tail = SPEEDS.sub(lambda found: SPEED[found[0]], tail)
    if AT_LEAST.match(tail.lstrip()):
        return None
    powers, factor, scale = dict[str, int](), Fraction(1), 1
    sign, area, place = 1, 1, 0
    while place < len(tail.rstrip()):
        piece = PIECE.match(tail, place)
        if not piece:
            return None
        glued = place == 0 and not tail[0].isspace()
        place = piece.end()
        word = (piece[1] or "").rstrip(".")
        low = word.casefold()
        if low in SCALES or low.removesuffix("s") in SCALES:
            scale *= SCALES[low if low in SCALES else low.removesuffix("s")]
        elif piece[3] or low == "per":
            sign = -1
        elif low in ("square", "sq", "cubic"):
            area = 3 if low == "cubic" else 2
        elif known := named(word):
            power = sign * int(piece[2] or area)
            powers[known[0]] = powers.get(known[0], 0) + power
            factor *= known[1] ** power
            area = 1
        elif low in ENDS or (word and (glued or low not in FILLING) and (changes(word) or not noun(word, glued))):
            return None
    return Unit(frozenset((name, power) for name, power in powers.items() if power), factor), scale


def named(word: str) -> tuple[str, Fraction] | None:
    """A unit's dimension and its factor, by its name, in the plural too."""
    for name in (word, word.casefold(), word.casefold().removesuffix("s"), word.casefold().removesuffix("es")):
        if name in UNITS and (len(name) > 1 or name == word):
            return UNITS[name]
    return None


def measured(text: str) -> tuple[str, str]:
    r"""A formula, and the unit it ends in: 5\sqrt{3} and cm of 5\sqrt{3} cm. Degrees change a value, and stay."""
    found = MEASURED.fullmatch(text)
    known = found and named(found[3])
    if not found or not ((known and known[0] != "angle") or found[3] in ("unit", "units")):
        return text, ""
    power = found[4] or {"s": "2", "c": "3"}.get((found[2] or " ")[0], "1")
    return found[1], f"{known} {power}"


def noun(word: str, glued: bool) -> bool:
    """A word, not a product of variables."""
    return len(word) >= (4 if glued else 3) or any(letter >= "\u2e80" for letter in word)
