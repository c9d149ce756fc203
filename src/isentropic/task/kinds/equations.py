"""When do two equations or inequalities say the same? When one is a multiple of the other, fractions cleared."""

from isentropic.task.kinds.evaluation import ratio_of, symbols
from isentropic.task.kinds.exact import exact
from isentropic.task.kinds.expressions import Node, num
from isentropic.task.kinds.shapes import Formula, Relation
from isentropic.task.kinds.simplicity import walk

TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
ONE = num(1)
LARGEST_POWER = 8  # that is multiplied out

Difference = tuple[Node, str]  # the left side less the right one, and the sign between them


def difference(relation: Relation) -> Difference | None:
    """None for chains, and for sides that are not read."""
    if len(relation.sides) != 2 or relation.signs[0] not in ("=", "!=", *TURNED):
        return None
    left, right = relation.sides
    if not (isinstance(left, Formula) and isinstance(right, Formula) and left.node and right.node):
        return None
    return Node("add", (left.node, Node("neg", (right.node,)))), relation.signs[0]


def same_solutions(gold: Difference, answer: Difference) -> bool:
    """Multiples of each other in the same symbols; of an inequality, by a number of the right sign."""
    (ours, sign), (theirs, other) = gold, answer
    if not symbols(ours) or symbols(ours) != symbols(theirs):
        return False
    if sign in TURNED:
        factor = ratio_of(ours, theirs)
        return factor is not None and other == (sign if factor > 0 else TURNED[sign])
    if sign != other:
        return False
    return ratio_of(ours, theirs) is not None or ratio_of(cleared(ours)[0], cleared(theirs)[0]) is not None


def solved(gold: Relation, answer: Relation) -> bool:
    """Whether it has no more numbers than a gold that is a value by its name: no x = 10 - 1 where x = 9 is asked."""
    if any(isinstance(side, Formula) and side.node and len(symbols(side.node)) > 1 for side in gold.sides):
        return True
    if not any(isinstance(side, Formula) and side.node and not symbols(side.node) for side in gold.sides):
        return True
    return numbers(answer) <= numbers(gold)


def numbers(relation: Relation) -> int:
    """How many are written in it, 0 left out."""
    nodes = [side.node for side in relation.sides if isinstance(side, Formula) and side.node]
    return sum(inner.head == "num" and inner.value != 0 for node in nodes for inner in walk(node))


def cleared(tree: Node) -> tuple[Node, Node]:
    """Numerator and denominator, where a tree is made of sums, products and quotients."""
    if tree.head == "div":
        (top, over), (bottom, under) = cleared(tree.args[0]), cleared(tree.args[1])
        return product(top, under), product(over, bottom)
    if tree.head == "neg":
        top, bottom = cleared(tree.args[0])
        return Node("neg", (top,)), bottom
    if tree.head in ("add", "mul"):
        parts = [cleared(arg) for arg in tree.args]
        top, bottom = parts[0]
        for numerator, denominator in parts[1:]:
            if tree.head == "mul":
                top = product(top, numerator)
            else:
                top = Node("add", (product(top, denominator), product(numerator, bottom)))
            bottom = product(bottom, denominator)
        return top, bottom
    if tree.head == "pow" and (exponent := exact(tree.args[1])) and 0 > exponent >= -LARGEST_POWER:
        return ONE, Node("pow", (tree.args[0], num(-exponent)))
    return tree, ONE


def product(first: Node, second: Node) -> Node:
    """Of two trees, without factors of 1."""
    if ONE in (first, second):
        return second if first == ONE else first
    return Node("mul", (first, second))
