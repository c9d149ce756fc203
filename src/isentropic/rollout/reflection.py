"""Does an answer look back at itself? By its words, as in arXiv:2503.20783: a marker is no proof of a check."""

import re

MARKERS = re.compile(
    r"\bwait\b\s*[,.!:;\u2014\u2026-]|(?:^|[.!?]\s+)wait\b|\bhold on\b|\bhmm+\b|\bon second thought\b|\bdouble[- ]check"
    r"|\blet(?:'s| us| me) (?:re-?|double[- ]?)?(?:check|verify|examine|consider|think again|try again|start over)\b"
    r"|\bre-?(?:check|verify|evaluate|examine|calculate|compute|think|assess)(?:s|d|ed|ing)?\b|\bcheck again\b"
    r"|\b(?:that|this)(?:'s| is) (?:wrong|incorrect|not right)\b|\bI (?:have )?made (?:a|an) (?:mistake|error)\b",
    re.IGNORECASE,
)
# Every marker has one of these in it. Most texts have none, which is thirty times as fast to find out.
HINTS = (
    "wait", "hold on", "hmm", "second thought", "double", "let's ", "let us ", "let me ", "re-", "recheck", "reverify",
    "reevaluate", "reexamine", "recalculate", "recompute", "rethink", "reassess", "check again", " wrong", " incorrect",
    " not right", " mistake", " error",
)  # fmt: skip


def reflects(text: str) -> bool:
    """Whether a marker such as "wait," "let me check" or "re-check" stands in it. English only."""
    text = text.replace("\u2019", "'").lower()
    return any(hint in text for hint in HINTS) and MARKERS.search(text) is not None
