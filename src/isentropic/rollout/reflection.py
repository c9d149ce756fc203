"""Does an answer look back at itself? By its words, as in arXiv:2503.20783: a marker is no proof of a check."""

import re

MARKERS = re.compile(
    r"\bwait\b\s*[,.!:;\u2014\u2026-]|(?:^|[.!?]\s+)wait\b|\bhold on\b|\bhmm+\b|\bon second thought\b|\bdouble[- ]check"
    r"|\blet(?:'s| us| me) (?:re-?|double[- ]?)?(?:check|verify|examine|consider|think again|try again|start over)\b"
    r"|\bre-?(?:check|verify|evaluate|examine|calculate|compute|think|assess)(?:s|d|ed|ing)?\b|\bcheck again\b"
    r"|\b(?:that|this)(?:'s| is) (?:wrong|incorrect|not right)\b|\bI (?:have )?made (?:a|an) (?:mistake|error)\b",
    re.IGNORECASE,
)


def reflects(text: str) -> bool:
    """Whether a marker such as "wait," "let me check" or "re-check" stands in it. English only."""
    return MARKERS.search(text.replace("\u2019", "'")) is not None
