r"""Is an answer worked out, or the question's own formula handed back?

48+24 is not worked out where 72 is, nor \sqrt{50}+\sqrt{18} where 8\sqrt{2} is, nor 19x-4x where 15x is. What the gold
itself does, an answer may do: add as many terms, take roots or logarithms, raise to powers.
"""

from collections import Counter
from collections.abc import Iterator

from isentropic.task.kinds.evaluation import symbols
from isentropic.task.kinds.exact import exact
from isentropic.task.kinds.expressions import Node

FREE = frozenset(["num", "sym", "neg", "div", "mul"])
UNDONE = frozenset(["pow", "fact", "binom", "floor", "ceil", "abs"])  # of numbers; functions are asked for by name
SAME = {"ln": "log", "log": "log", "exp": "pow"}


def worked_out(gold: Node, answer: Node) -> bool:
    """Whether the answer leaves no more to do than the gold does."""
    if gold == answer:
        return True
    if symbols(gold):
        return left_to_do(answer) <= left_to_do(gold)
    allowed, found = Counter(kinds(gold)), Counter(kinds(answer))
    if set(found) - set(allowed) - FREE:
        return False
    if found["add"] > allowed["add"] or found["root"] > allowed["root"] + 1:
        return False
    return left_to_do(answer) <= left_to_do(gold)


def kinds(tree: Node) -> Iterator[str]:
    """What is done in it; an addition once for each term beyond the first; 5^{1/5} is a root."""
    for inner in walk(tree):
        if inner.head == "add":
            yield from ["add"] * (len(inner.args) - 1)
        elif inner.head == "pow" and is_root(inner):
            yield "root"
        else:
            yield SAME.get(inner.name, inner.name) if inner.head == "call" else inner.head


def is_root(tree: Node) -> bool:
    """Whether a power's exponent is a fraction."""
    exponent = exact(tree.args[1])
    return exponent is not None and exponent.denominator > 1


def left_to_do(tree: Node) -> int:
    """How often numbers or like terms meet that one would have put together: 19x - 4x, 2 * 3, (1/2)/3."""
    count = 0
    for inner in walk(tree):
        if inner.head in ("add", "mul") and inner.args:
            count += repeated(inner)
        elif inner.head == "div":
            count += any(part.head == "div" for arg in inner.args for part in (arg, *arg.args) if not symbols(arg))
        elif inner.head in UNDONE and not (inner.head == "pow" and is_root(inner)):
            count += all(exact(arg) is not None for arg in inner.args)
    return count


def repeated(tree: Node) -> int:
    """Terms of a sum that differ by a number alone; numbers and roots among the factors of a product."""
    parts = list(flat(tree, tree.head))
    if tree.head == "mul":
        numbers, roots = sum(exact(part) is not None for part in parts), sum(part.head == "root" for part in parts)
        return max(0, numbers - 1) + max(0, roots - 1)
    rests = [() if exact(part) is not None else rest(part) for part in parts]
    return len(rests) - len(set(rests))


def flat(tree: Node, head: str) -> Iterator[Node]:
    """The terms of sums within a sum, signs apart."""
    if tree.head == "neg":
        yield from flat(tree.args[0], head)
    elif tree.head == head:
        for arg in tree.args:
            yield from flat(arg, head)
    else:
        yield tree


def rest(term: Node) -> tuple[Node, ...]:
    """A term without the numbers among its factors."""
    factors = [part for part in flat(term, "mul") if exact(part) is None]
    return tuple(sorted(factors, key=repr)) or (term,)


def walk(tree: Node) -> Iterator[Node]:
    """Every node, from the top down."""
    yield tree
    for arg in tree.args:
        yield from walk(arg)
