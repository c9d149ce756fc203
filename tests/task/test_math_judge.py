import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.hostile import Bait, as_user
from fixtures.hostile_answers import EXPRESSIONS, FOLDER, HEAVY, LATEX, TEXTS, bought

from isentropic.task.judge_pool import JudgePool
from isentropic.tools.pool import Pool

JUDGE = "isentropic.task.math_judge:judge"
KINDS = {"math": ("", r"So \boxed{%s}"), "gsm8k": ("####", "So\n#### %s")}


@pytest.fixture(scope="module", params=[False, True], ids=["as one is", "as another user"])
def judges(request):
    made = JudgePool(JUDGE, workers=1, timeout=0.5, memory=2.0)
    made.pool = Pool(replace(made.pool.settings, **as_user(request)), 1)
    yield made
    made.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a cage")
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_hostile_answer_does_what_it_wants(kind, judges):
    (marker, shape), bait = KINDS[kind], Bait(Path(FOLDER))
    texts = [shape % answer for answer in (*EXPRESSIONS, *HEAVY, *LATEX)] + TEXTS
    try:
        judges([("72", shape % "72", marker, "strict")])
        server = judges.pool.workers[0].process

        def judge(texts):
            return judges([("72", text, marker, "strict") for text in texts])

        assert bought(judge, texts, shape % "72", shape % "71", list(KINDS).index(kind)) == {}
        assert judges.pool.workers[0].process is server and server.poll() is None and bait.untouched()
    finally:
        shutil.rmtree(bait.path)


def test_the_text_is_read_where_it_is_judged():
    judges = JudgePool(JUDGE, workers=1, timeout=5.0, memory=2.0)
    texts = [r"\boxed{3}. No, it is: \boxed{4}", "#### 4\nnext", "4", "#### "]
    verdicts = judges([("4", text, "####", "strict") for text in texts])
    judges.close()
    assert [one.status for one in verdicts] == ["right", "right", "unparseable", "unparseable"]


def test_a_text_that_repeats_itself_is_read_in_one_pass_and_power_towers_are_given_up():
    judges = JudgePool(JUDGE, workers=1, timeout=5.0, memory=2.0)
    texts = [r"\boxed{\frac{1}{2 so " * 20_000, r"\boxed{9^{9^{9^{9}}}}", r"\boxed{4}"]
    verdicts = judges([("4", text, "", "strict") for text in texts])
    judges.close()
    assert [one.correct for one in verdicts] == [False, False, True] and verdicts[0].status == "unparseable"
