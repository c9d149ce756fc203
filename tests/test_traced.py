from pathlib import Path
from types import SimpleNamespace

from fixtures.traced import PAUSED, leave_untraced, traced_where_asked


class Item(SimpleNamespace):
    def get_closest_marker(self, name):
        return name if name in self.marks else None

    def add_marker(self, name):
        self.marks.append(name)


def item(name, *marks, path="test_some.py"):
    return Item(path=Path(path), name=name, marks=[*marks], stash={})


def test_coverage_counts_fast_tests_and_of_each_that_is_repeated_the_first_two():
    items = [item("long[1]", "slow"), item("long[2]"), item("fast"), item("slow", "slow", path="test_slow.py")]
    items += [item("both[1]", "slow"), *(item(f"both[{number}]") for number in range(2, 6))]
    leave_untraced(items)
    counted = [one.name for one in items if "no_cover" not in one.marks and PAUSED not in one.stash]
    assert counted == ["long[2]", "fast", "both[2]", "both[3]"]
    assert [one.name for one in items if PAUSED in one.stash] == ["slow"], (
        "another has fixtures that fast ones have too"
    )


def test_a_file_of_slow_tests_is_not_traced_and_others_are():
    done = []
    controller = SimpleNamespace(pause=lambda: done.append("pause"), resume=lambda: done.append("resume"))
    for plugin, stash, wanted in (
        (SimpleNamespace(cov_controller=controller), {PAUSED: True}, ["pause", "test", "resume"]),
        (SimpleNamespace(cov_controller=controller), {}, ["test"]),
        (None, {PAUSED: True}, ["test"]),
    ):
        done.clear()
        config = SimpleNamespace(pluginmanager=SimpleNamespace(getplugin={"_cov": plugin}.get))
        with traced_where_asked(SimpleNamespace(config=config, stash=stash)):
            done.append("test")
        assert done == wanted
