"""What is worked out once is as it is when it is worked out each time."""

from types import ModuleType

import omegaconf._utils
import omegaconf.base
import pytest
from hydra import version
from omegaconf import OmegaConf, grammar_parser
from omegaconf.errors import GrammarParseError

from isentropic.config.compose import CONFIGS, compose, loader_of
from isentropic.config.repeated import PLACES, once


def test_a_config_is_the_same_without(monkeypatch):
    def composed() -> list:
        cfg = compose(loader_of(CONFIGS), "train", ["experiment=quickstart", "algorithm=stare", "hydra/launcher=slurm"])
        return [OmegaConf.to_container(cfg[key], resolve=True) for key in ("algorithm", "policy", "rollout")]

    found = composed()
    for module, name in PLACES:
        monkeypatch.setattr(module, name, getattr(module, name).__wrapped__)
    assert composed() == found
    assert omegaconf.base.parse is omegaconf._utils.parse is grammar_parser.parse


def test_one_text_is_resolved_by_what_stands_there_now():
    OmegaConf.register_new_resolver("twice", lambda number: 2 * number)
    try:
        for number in (1, 2):
            cfg = OmegaConf.create({"a": number, "b": "${twice:${a}}", "c": "${a} and ${.b}", "d": "${missing}"})
            assert (cfg.b, cfg.c) == (2 * number, f"{number} and {2 * number}")
            with pytest.raises(Exception, match="missing"):
                _ = cfg.d
    finally:
        OmegaConf.clear_resolver("twice")


def test_what_cannot_be_read_is_refused_each_time():
    for _ in range(2):
        with pytest.raises(GrammarParseError):
            OmegaConf.create({"a": "${b"})


def test_a_version_is_compared_with_the_one_that_is_set(monkeypatch):
    for base, wanted in (("1.2", False), ("1.3", True)):
        monkeypatch.setattr(version.VersionBase.instance(), "version_base", version.Version(base))
        assert version.base_at_least("1.3") is wanted


def test_a_library_without_the_function_stays_as_it_is():
    library = ModuleType("library")
    once(library, "parse")
    assert not hasattr(library, "parse")
    library.parse = lambda text: [text]
    once(library, "parse")
    kept = library.parse
    once(library, "parse")
    assert library.parse is kept and kept("a") is kept("a")
