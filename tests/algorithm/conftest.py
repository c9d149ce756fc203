"""Isentropic is imported inside fixtures: the shape checks must be installed before."""

from copy import deepcopy
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch
from hydra._internal.defaults_list import create_defaults_list
from hydra.core.config_store import ConfigStore
from hydra.utils import instantiate
from omegaconf import OmegaConf

CONFIGS = Path(__file__).parents[2] / "configs"
RECIPES = sorted(path.stem for path in (CONFIGS / "algorithm").glob("*.yaml"))

NAME = "algorithm_alone"
# The lines of configs/train.yaml that concern the algorithm.
ALONE = [
    {"algorithm": "grpo"},
    {"experiment": None},
    "_self_",
]


@cache
def loader():
    from isentropic.config.compose import loader_of

    ConfigStore.instance().store(name=NAME, node={"defaults": ALONE})
    return loader_of(CONFIGS)


@cache
def composed(*overrides):
    """As the loader composes it for a run, without what is Hydra's own: half of the files."""
    parsed, files = loader()._parse_overrides_and_create_caching_repo(NAME, list(overrides))
    chosen = create_defaults_list(files, NAME, parsed, prepend_hydra=False, skip_missing=False)
    cfg = loader()._compose_config_from_defaults_list(chosen.defaults, files)
    OmegaConf.set_struct(cfg, True)
    settings = [one for one in chosen.config_overrides if not one.is_hydra_override()]
    loader()._apply_overrides_to_config(settings, cfg)
    return cfg.algorithm


@pytest.fixture
def configure():
    """Overrides in, the algorithm's config out."""
    return lambda *overrides: deepcopy(composed(*overrides))


@cache
def built(*overrides):
    return instantiate(deepcopy(composed(*overrides)))


@pytest.fixture(scope="session")
def build():
    """Overrides in, an Algorithm out; its controller remembers nothing yet."""
    return lambda *overrides: deepcopy(built(*overrides))


@pytest.fixture(scope="session")
def bigrams():
    """The module of that name beside this file."""
    spec = spec_from_file_location("bigrams", Path(__file__).with_name("bigrams.py"))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=RECIPES)
def recipe(request):
    return request.param


@pytest.fixture
def acting(recipe, bigrams, build):
    """A recipe, with the settings at which it does something to the rollouts of bigrams.py."""
    return build(f"algorithm={recipe}", *bigrams.ACTING.get(recipe, []))


def table(rows, pad):
    return torch.tensor([r + [pad] * (5 - len(r)) for r in rows], dtype=torch.float64)


@pytest.fixture
def paper():
    """Four answers, right, wrong, right, wrong, with garbage in the padding; and the policy after a step."""
    from isentropic.batch import ScoredBatch, TokenStats

    old = table([[0.9, 0.0012, 0.5, 0.3, 0.8], [0.7, 0.05, 0.6, 0.00012], [0.0009, 0.95, 0.0006], [0.4, 0.25]], 1).log()
    new = table([[0.92, 0.0015, 0.7, 0.2, 0.8], [0.5, 0.06, 0.6, 0.0015], [0.001, 0.95, 0.0005], [0.5, 0.22]], 1).log()
    old_entropy = table([[0.3, 0.1, 1.2, 1.6, 0.5], [0.8, 2.0, 0.9, 0.4], [0.9, 0.2, 2.6], [1.1, 1.5]], 9)
    new_entropy = table([[0.25, 0.05, 1.0, 1.7, 0.5], [1.0, 1.9, 0.9, 0.6], [1.8, 0.2, 2.5], [1.0, 1.6]], 9)
    mask = torch.arange(5) < torch.tensor([5, 4, 3, 2])[:, None]
    old, new = old.masked_fill(~mask, -30), new.masked_fill(~mask, -30)
    reward = torch.tensor([1.0, 0, 1, 0], dtype=torch.float64)
    zero = torch.zeros(4, dtype=torch.long)
    ids = torch.zeros(4, 5, dtype=torch.long)
    batch = ScoredBatch(ids, mask, zero, reward, reward > 0, zero > 0, old, old, old_entropy, old * 0, old)
    return batch, TokenStats(new, new_entropy, new * 0)


@pytest.fixture
def charge():
    """One optimizer step, up to its loss: (loss, gradient at each log-prob, metrics, credit).

    In one micro-batch, or in as many as lists of row numbers are given.
    """
    from isentropic.batch import TokenStats, Vitals
    from isentropic.reductions import masked_mean, totals

    def charged(algorithm, batch, now, *micro_batches, progress=0.0):
        logp = now.logp.clone().requires_grad_()
        now = TokenStats(logp, now.entropy, now.sensitivity)
        drive = algorithm.control.update(Vitals(masked_mean(batch.old_entropy, batch.mask).item(), progress))
        parts = [torch.tensor(rows) for rows in micro_batches] or [torch.arange(len(logp))]
        credit, metrics = algorithm.assign(algorithm.advantage(batch), now, batch, drive, parts)
        loss, counts = 0.0, totals(credit.mask)
        for rows in parts:
            part, more = algorithm.loss(now[rows], batch[rows], credit[rows], drive, counts)
            part.backward()
            loss += part.item()
            metrics = metrics | {name: metrics.get(name, 0) + value for name, value in more.items()}
        return loss, logp.grad, {k: float(v) for k, v in metrics.items()}, credit

    return charged
