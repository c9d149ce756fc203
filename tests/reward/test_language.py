import pytest

from isentropic.reward.language import Language


def test_the_share_of_letters_of_a_script(answer):
    latin = Language(weight=1.0, scripts=["latin"])
    texts = ["Let x be 4.", "ab\u4e2d\u6587", "\u043e\u0442\u0432\u0435\u0442", "12 + 3 = 15", "na\u00efve"]
    assert latin([answer(text) for text in texts]) == [1.0, 0.5, 0.0, None, 1.0]
    japanese = Language(weight=1.0, scripts=["hiragana", "katakana", "cjk"])
    assert japanese([answer("\u7b54\u3048\u306f\u30a2A")]) == [0.8]


def test_a_script_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match=r"reward\.language\.scripts has 'english', by which Unicode names no letter"):
        Language(weight=1.0, scripts=["latin", "english"])
    with pytest.raises(ValueError, match=r"reward\.language\.scripts=\[\] allows no letter"):
        Language(weight=1.0, scripts=[])
