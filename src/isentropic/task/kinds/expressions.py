r"""Formulas of LaTeX or plain text as trees: arithmetic, powers, roots, functions, symbols. Nothing is evaluated.

What is not read (\int, \sum, \lim, prose) raises Unreadable, and others are asked. Juxtaposition multiplies, left to
right with / and \cdot; 2\frac{1}{2} is a mixed number; 2e3 is two thousand.
"""

from dataclasses import dataclass
from fractions import Fraction

from isentropic.task.kinds.tokens import APPLIED, DECORATED, FUNCTIONS, known, tokens_of

OPEN = {
    "(": ")",
    "[": "]",
    r"\{": r"\}",
    "{": "}",
    r"\lfloor": r"\rfloor",
    r"\lceil": r"\rceil",
    r"\langle": r"\rangle",
}
PRODUCTS = {"*": "mul", r"\cdot": "mul", r"\times": "mul", "/": "div", r"\div": "div"}
DEEPEST = 30  # brackets and functions within each other
MOST = 3_000  # tokens
MOST_DIGITS = 25_000  # of all numbers; 1e9999 has ten thousand
LONGEST_PRODUCT = 200  # factors, as a tree of quotients is as deep as it is long


class Unreadable(ValueError):
    """Not a formula of the kind that is read here."""


@dataclass(frozen=True)
class Node:
    """A number, a symbol, or what is done to others."""

    head: str
    args: tuple["Node", ...] = ()
    name: str = ""
    value: Fraction = Fraction(0)


def num(value: Fraction | int) -> Node:
    """A number as a tree of one node."""
    return Node("num", value=Fraction(value))


def formula(text: str) -> Node:
    """The tree of a text. Raises Unreadable for what is no formula, or has more than MOST tokens."""
    tokens = tokens_of(text)
    if not tokens or len(tokens) > MOST:
        raise Unreadable(f"{len(tokens)} tokens")
    parser = Parser(tokens)
    tree = parser.sum()
    if parser.place < len(tokens):
        raise Unreadable(parser.peek())
    return tree


class Parser:
    """Recursive descent with one token of foresight."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.place, self.depth, self.bars, self.digits = tokens, 0, 0, 0, 0

    def peek(self) -> str:
        """The next token, or nothing at the end."""
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        """The next token, which is passed. Raises Unreadable at the end, or where it is none of those wanted."""
        token = self.peek()
        if not token or (wanted and token not in wanted):
            raise Unreadable(token or "the end")
        self.place += 1
        return token

    def sum(self) -> Node:
        """Terms with + and -."""
        terms = [self.product()]
        while self.peek() in ("+", "-"):
            negative = self.take() == "-"
            term = self.product()
            terms.append(Node("neg", (term,)) if negative else term)
        return terms[0] if len(terms) == 1 else Node("add", tuple(terms))

    def product(self, implicit: bool = False) -> Node:
        """Factors; `implicit`: only those without a sign between them, the argument of a function without brackets.

        Raises Unreadable for more of them than LONGEST_PRODUCT.
        """
        tree = self.signed()
        for _ in range(LONGEST_PRODUCT):
            sign = "" if implicit else PRODUCTS.get(self.peek(), "")
            if sign:
                self.take()
            elif not self.starts(implicit) or (self.peek()[0] in ".0123456789" and tree.head == "num"):
                return tree
            before = tree
            factor = self.signed() if sign else self.power()
            if sign == "div":
                tree = Node("div", (tree, factor))
            elif not sign and mixed(before, factor):
                tree = num(before.value + factor.args[0].value / factor.args[1].value)
            else:
                tree = Node("mul", (*(tree.args if tree.head == "mul" else (tree,)), factor))
        raise Unreadable("too long a product")

    def starts(self, implicit: bool) -> bool:
        """Whether a factor begins here that no sign of multiplication stands before."""
        token = self.peek()
        if not token or token in ("|", ")", "]", "}") or token in OPEN.values():
            return token == "|" and self.bars == 0
        if token.startswith("\\") and token[1:] in FUNCTIONS:
            return not implicit
        return token[0].isalnum() or token in OPEN or token[0] == "." or (token[0] == "\\" and known(token[1:]))

    def signed(self) -> Node:
        """A power behind any number of signs."""
        if self.peek() in ("-", "+"):
            negative = self.take() == "-"
            self.deeper()
            inner = self.signed()
            self.depth -= 1
            if negative and inner.head == "num":
                return num(-inner.value)
            return Node("neg", (inner,)) if negative else inner
        return self.power()

    def power(self) -> Node:
        r"""An atom with its exponent; ^\circ is degrees."""
        base = self.postfix(self.atom())
        if self.peek() == "^":
            self.take()
            if self.peek() == r"\circ" or self.tokens[self.place : self.place + 3] == ["{", r"\circ", "}"]:
                self.place += 1 if self.peek() == r"\circ" else 3
                return Node("mul", (base, Node("sym", name="degree")))
            return self.postfix(Node("pow", (base, self.exponent())))
        return base

    def exponent(self) -> Node:
        """Right to left: 2^3^4 is 2^(3^4)."""
        self.deeper()
        tree = self.signed() if self.peek() in ("-", "+") else self.power()
        self.depth -= 1
        return tree

    def postfix(self, tree: Node) -> Node:
        """A factorial; of two signs it raises Unreadable."""
        while self.peek() == "!":
            self.take()
            if tree.head == "fact":
                raise Unreadable("!!")
            tree = Node("fact", (tree,))
        return tree

    def deeper(self) -> None:
        """Raises Unreadable below DEEPEST levels, before Python's own limit."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unreadable("too deep")

    def atom(self) -> Node:
        """A number, symbol, command, or anything in brackets or bars. Raises Unreadable for any other token."""
        self.deeper()
        token = self.take()
        if token[0].isdigit() or token[0] == ".":
            tree = self.number(token)
        elif token in OPEN:
            tree = self.bracket(token)
        elif token == "|":
            self.bars += 1
            tree = Node("abs", (self.sum(),))
            self.take("|")
            self.bars -= 1
        elif token[0].isalpha():
            tree = self.symbol(token)
        elif token[0] == "\\":
            tree = self.command(token[1:])
        else:
            raise Unreadable(token)
        self.depth -= 1
        return tree

    def number(self, token: str) -> Node:
        """Exactly as it is written. Raises Unreadable where all numbers so far have more than MOST_DIGITS."""
        digits, _, exponent = token.lower().partition("e")
        self.digits += len(digits) + abs(int(exponent or 0))
        if self.digits > MOST_DIGITS:
            raise Unreadable("too many digits")
        return num(Fraction(token.rstrip(".")))

    def bracket(self, token: str) -> Node:
        """Up to the closing one; floor and ceiling are calls."""
        bars, self.bars = self.bars, 0
        tree = self.sum()
        self.take(OPEN[token])
        self.bars = bars
        heads = {r"\lfloor": "floor", r"\lceil": "ceil"}
        return Node(heads[token], (tree,)) if token in heads else tree

    def command(self, name: str) -> Node:
        """One that begins with a backslash. Raises Unreadable for one that is not known."""
        if name == "frac":
            return Node("div", (self.argument(), self.argument()))
        if name == "binom":
            return Node("binom", (self.argument(), self.argument()))
        if name in ("sqrt", "surd"):
            index = num(2)
            if self.peek() == "[" and name == "sqrt":
                self.take()
                index = self.sum()
                self.take("]")
            return Node("root", (self.argument() if name == "sqrt" else self.atom(), index))
        if name in FUNCTIONS:
            return self.function(name)
        if name in DECORATED:
            return self.symbol(f"{name} {self.raw()}")
        if known(name):
            return self.symbol(name)
        raise Unreadable(name)

    def argument(self) -> Node:
        """In braces, or one letter or digit, as LaTeX takes it: \\frac43."""
        token = self.peek()
        if len(token) > 1 and token.isdigit():
            self.tokens[self.place] = token[1:]
            return num(int(token[0]))
        return self.atom()

    def function(self, name: str) -> Node:
        r"""With its base and exponent; \sin^{-1} is the inverse."""
        base, exponent = list[Node](), None
        while self.peek() in ("_", "^"):
            if self.take() == "_":
                base = [self.argument()]
            else:
                exponent = self.exponent()
        self.deeper()
        argument = self.bracket(self.take()) if self.peek() in ("(", "{", "[") else self.product(implicit=True)
        self.depth -= 1
        name = {"lg": "log", "exp": "exp"}.get(name, name)
        if exponent == num(-1) and name in ("sin", "cos", "tan"):
            return Node("call", (argument,), f"arc{name}")
        tree = Node("call", (argument, *base), name) if name not in ("sqrt", "abs") else Node("abs", (argument,))
        return tree if exponent is None else Node("pow", (tree, exponent))

    def symbol(self, name: str) -> Node:
        """With subscript and primes; f(x) of a usual name is opaque, n(n+1) a product."""
        letter = name
        while self.peek() in ("_", "'") or (self.peek() == "^" and self.prime()):
            if self.peek() == "^":
                self.place += 2 if self.tokens[self.place + 1] != "{" else 4
                name += "'"
            else:
                name += "'" if self.take() == "'" else f"_{self.raw()}"
        if self.peek() == "(" and (letter in APPLIED or self.of_a_number()):
            self.take()
            inside = [self.sum()]
            while self.peek() == ",":
                self.take()
                inside.append(self.sum())
            self.take(")")
            return Node("apply", tuple(inside), name)
        return Node("sym", name=name)

    def of_a_number(self) -> bool:
        """I(0) is a value of I, not nothing."""
        after = self.tokens[self.place + 1 : self.place + 3]
        return len(after) == 2 and after[0].isdigit() and after[1] == ")"

    def prime(self) -> bool:
        """Whether the next exponent is a prime, a part of a name."""
        after = self.tokens[self.place + 1 : self.place + 4]
        return after[:1] == [r"\prime"] or after == ["{", r"\prime", "}"]

    def raw(self) -> str:
        """What stands in braces, as text: a subscript is a part of the name."""
        if self.peek() != "{":
            return self.take()
        self.take()
        parts = list[str]()
        while self.peek() not in ("}", "{", ""):
            parts.append(self.take())
        self.take("}")
        return "".join(parts)


def mixed(whole: Node, part: Node) -> bool:
    r"""Whether a fraction behind a whole number adds to it, as in 2\frac{1}{2}."""
    if whole.head != "num" or part.head != "div" or any(arg.head != "num" for arg in part.args):
        return False
    top, bottom = (arg.value for arg in part.args)
    return whole.value.denominator == top.denominator == bottom.denominator == 1 and 0 < top < bottom
