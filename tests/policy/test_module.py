import warnings
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from isentropic.algorithm.credit import CreditRule
from isentropic.algorithm.credit.ice_pop import IcePop
from isentropic.algorithm.credit.sequence_importance import SequenceImportance
from isentropic.algorithm.credit.sequence_mask import SequenceMask
from isentropic.algorithm.credit.truncated_importance import TruncatedImportance
from isentropic.policy.schedule import Linear


def weights(module):
    return {name: value.clone() for name, value in module.weights()}


def distance(a, b):
    return max(float((a[name] - b[name]).abs().max()) for name in a)


def gradient_of(module, fit, batch):
    """That of the first update, before it is clipped, and the metrics of the rollout."""
    gradients, step = [], module.step_optimizer

    def watched():
        gradients.append(torch.cat([p.grad.flatten() for p in module.policy.parameters()]))
        return step()

    module.step_optimizer = watched
    metrics = fit(module, [batch])
    return gradients[0], metrics


@pytest.mark.parametrize(
    "cut", [{"micro_batch": 1}, {"micro_batch": 2}, {"micro_batch": 8, "max_tokens_per_micro_batch": 30}]
)
def test_an_update_does_not_depend_on_how_the_batch_is_cut(policy, fit, rollout, cut):
    whole, seen = gradient_of(policy(), fit, rollout)
    parts, again = gradient_of(policy(**cut), fit, rollout)
    torch.testing.assert_close(parts, whole, atol=1e-6, rtol=0)
    assert again == pytest.approx(seen, abs=1e-5)


def test_an_update_does_not_depend_on_the_padding(policy, fit, rollout, wider):
    narrow, seen = gradient_of(policy(), fit, rollout)
    wide, again = gradient_of(policy(), fit, wider(rollout, 17))
    torch.testing.assert_close(wide, narrow, atol=1e-6, rtol=0)
    assert again == pytest.approx(seen, abs=1e-5)


def test_masters_are_fp32_and_a_small_learning_rate_moves_them(policy, fit, rollout):
    module = policy(lr=1e-6)
    from isentropic.policy.model.language_model import LanguageModel

    before = {name: value.clone() for name, value in LanguageModel(module.model).weights()}
    assert {value.dtype for value in before.values()} == {torch.float32}
    fit(module, [rollout] * 2)
    assert 1e-6 < distance(before, weights(module)) < 1e-5


def test_one_rollout_is_as_many_updates_as_mini_batches(policy, fit, rollout):
    module = policy(mini_batch=2, micro_batch=2)
    steps = []
    step = module.step_optimizer
    module.step_optimizer = lambda: steps.append(module.trainer.global_step) or step()
    metrics = fit(module, [rollout, rollout])
    assert steps == list(range(8))
    assert metrics["step"] == 2


def test_later_updates_leave_the_old_log_probs_behind_and_the_first_does_not(policy, fit, rollout):
    assert fit(policy(lr=0.05), [rollout])["clipping/clipped_high"] == 0
    assert fit(policy(lr=0.05, mini_batch=2, micro_batch=2), [rollout] * 2)["clipping/clipped_high"] > 0


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.5])
def test_the_ratio_of_the_first_update_is_one_at_any_temperature(policy, fit, rollout, temperature):
    module = policy(temperature=temperature)
    ratios = []
    loss = type(module.algorithm).loss

    def watch(algorithm, now, batch, credit, drive, totals):
        ratios.append((now.logp.detach() - batch.old_logp)[credit.mask].exp())
        return loss(algorithm, now, batch, credit, drive, totals)

    object.__setattr__(module.algorithm, "loss", watch.__get__(module.algorithm))
    fit(module, [rollout])
    assert torch.cat(ratios).sub(1).abs().max() < 1e-5


def test_a_batch_that_teaches_nothing_has_no_gradient_and_finite_metrics(policy, fit, rollout):
    for reward in (0.0, 1.0, 0.7):
        module = policy(weight_decay=0.0)
        same = replace(rollout, reward=torch.full((8,), reward), correct=torch.full((8,), reward == 1))
        metrics = fit(module, [replace(same, truncated=torch.ones(8, dtype=torch.bool))])
        assert metrics["policy/grad_norm"] == 0 and not module.changed
        assert all(torch.tensor(list(metrics.values())).isfinite())


def test_rows_without_any_chosen_token_take_part_without_harm(policy, fit, rollout):
    metrics = fit(policy(), [replace(rollout, mask=torch.zeros_like(rollout.mask))])
    assert metrics["policy/grad_norm"] == 0 and metrics["policy/loss"] == 0


def test_fewer_rows_than_updates_still_take_all_updates(policy, fit, rollout):
    metrics = fit(policy(mini_batch=2, micro_batch=2), [rollout[:3]])
    assert metrics["policy/skipped"] == 0 and metrics["policy/grad_norm"] > 0


def test_a_gradient_that_is_not_finite_is_left_out_and_said(policy, fit, rollout):
    module = policy()
    bad = replace(rollout, reward=torch.where(torch.arange(8) == 0, torch.inf, rollout.reward))
    with pytest.warns(UserWarning, match="rollout 1: the gradient norm is nan"):
        metrics = fit(module, [bad])
    from isentropic.policy.model.language_model import LanguageModel

    untouched = {name: value.clone() for name, value in LanguageModel(module.model).weights()}
    assert metrics["policy/skipped"] == 1 and distance(untouched, weights(module)) == 0


def test_the_entropy_logged_is_the_mean_per_response_token_whatever_the_aggregation(policy, fit, rollout):
    from isentropic.algorithm.aggregation.sequence_mean import SequenceMean

    module = policy()
    other = policy()
    object.__setattr__(other.algorithm, "aggregation", SequenceMean())
    assert fit(module, [rollout])["entropy/mean"] == fit(other, [rollout])["entropy/mean"]
    batch, *_ = module.last_rollout
    assert fit(policy(), [rollout])["entropy/mean"] == pytest.approx(
        float(batch.old_entropy[batch.mask].double().mean()), rel=1e-6
    )


def test_a_small_step_changes_entropy_as_predicted_in_sign(policy, fit, rollout):
    torch.manual_seed(0)
    one = replace(rollout, reward=torch.tensor([1.0, 0, 0, 0] * 2))
    for praised in (one, replace(one, reward=-one.reward)):
        metrics = fit(policy(lr=1e-5, weight_decay=0.0), [praised, praised])
        predicted, measured = metrics["entropy/predicted_change"], metrics["entropy/measured_change"]
        assert predicted * measured > 0


@pytest.mark.parametrize("cut", [{}, {"mini_batch": 2, "micro_batch": 2}, {"micro_batch": 2}])
def test_those_who_watch_see_each_token_as_it_was_learnt_from(policy, fit, rollout, cut):
    module = policy(**cut)
    metrics = fit(module, [rollout])
    batch, credit, now, *_ = module.last_rollout
    assert len(batch.tokens) == len(credit.mask) == len(now.logp) == 8
    ratio = (now.logp - batch.old_logp)[batch.mask].exp()
    moved = "mini_batch" in cut  # the first two rows are learnt from before any step
    assert (ratio.sub(1).abs().max() > 1e-3) == moved and (now.logp - batch.old_logp)[:2].abs().max() < 1e-5
    assert metrics["ratio/ess"] < 1 if moved else metrics["ratio/ess"] == pytest.approx(1, abs=1e-6)
    assert torch.equal(module.last_rollout.advantages, module.algorithm.advantage(batch)) and set(
        module.last_rollout.affected
    ) == {*module.algorithm.credit}


def test_sizes_that_do_not_divide_are_refused(policy):
    with pytest.raises(ValueError, match="micro_batch=3 does not divide mini_batch=8"):
        policy(micro_batch=3)
    with pytest.raises(ValueError, match="mini_batch=6 does not divide"):
        policy(mini_batch=6, micro_batch=2)


class WithoutTruncated(CreditRule):
    def __call__(self, credit, now, batch, drive):
        return credit.drop(batch.truncated[:, None] & credit.mask)


def with_rules(module, **rules):
    object.__setattr__(module.algorithm, "credit", rules)
    return module


@pytest.mark.parametrize("micro_batch", [2, 8])
def test_dropped_tokens_leave_the_numerator_and_the_denominator(policy, fit, rollout, micro_batch):
    cut = torch.arange(8) % 4 > 1
    gone = replace(rollout, mask=rollout.mask & ~cut[:, None])
    expected, _ = gradient_of(with_rules(policy()), fit, gone)
    dropping = with_rules(policy(micro_batch=micro_batch), truncated=WithoutTruncated())
    gradient, metrics = gradient_of(dropping, fit, replace(rollout, truncated=cut))
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(gradient, expected, atol=1e-6, rtol=0)
    assert torch.equal(dropping.last_rollout.affected["truncated"], rollout.mask & cut[:, None])
    share = (rollout.mask & cut[:, None]).sum() / rollout.mask.sum()
    assert metrics["credit/truncated"] == pytest.approx(float(share))


def test_where_every_token_is_dropped_the_step_is_nothing_and_finite(policy, fit, rollout):
    module = with_rules(policy(micro_batch=2), truncated=WithoutTruncated())
    gradient, metrics = gradient_of(module, fit, replace(rollout, truncated=torch.ones(8, dtype=torch.bool)))
    assert gradient.abs().max() == 0 and metrics["policy/loss"] == 0 and metrics["credit/truncated"] == 1
    assert torch.tensor(list(metrics.values())).isfinite().all()


class WidestLogits(TorchDispatchMode):
    """The most rows that any tensor over the vocabulary of the tiny model has, but for its head and embedding."""

    rows = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if (
                isinstance(tensor, torch.Tensor)
                and tensor.dim() > 1
                and tensor.shape[-1] == 24
                and tensor.shape[0] != 64
            ):
                self.rows = max(self.rows, tensor.numel() // 24)
        return result


def test_logits_exist_for_one_chunk_at_most_in_a_whole_training_step(policy, fit, rollout):
    module = policy()
    assert rollout.mask.sum() > 3 * module.model.logits_chunk
    train = module.training_step
    widest = WidestLogits()

    def watched(*arguments):
        with widest:
            return train(*arguments)

    module.training_step = watched
    fit(module, [rollout])
    assert 0 < widest.rows <= module.model.logits_chunk


@pytest.mark.parametrize("paid", [False, True])
def test_an_update_has_the_entropy_computed_only_where_a_penalty_reads_it(policy, fit, rollout, paid):
    from isentropic.algorithm.penalty.entropy_bonus import EntropyBonus

    module, seen = policy(), []
    object.__setattr__(module.algorithm, "penalty", {"entropy_bonus": EntropyBonus(0.1)} if paid else {})
    loss = type(module.algorithm).loss

    def watch(algorithm, now, batch, credit, drive, totals):
        seen.append(now.entropy[credit.mask])
        return loss(algorithm, now, batch, credit, drive, totals)

    object.__setattr__(module.algorithm, "loss", watch.__get__(module.algorithm))
    metrics = fit(module, [rollout])
    assert seen[0].isfinite().all() == seen[0].requires_grad == paid
    assert metrics["policy/skipped"] == 0 and metrics["entropy/mean"] > 0


class Harmless(WithoutTruncated):
    """Says what is true of it: it looks at how answers ended, not at the policy."""

    reads_policy = False


def plain(module, rules=None, **parts):
    """GRPO without a controller, over the rules."""
    from isentropic.algorithm.control.constant import Constant

    for name, part in ({"control": Constant(0.0, 0.0), "credit": rules or {}} | parts).items():
        object.__setattr__(module.algorithm, name, part)
    return module


@pytest.mark.parametrize("rules", [{}, {"harmless": Harmless()}])
@pytest.mark.parametrize("cut", [{}, {"micro_batch": 2}, {"micro_batch": None, "max_tokens_per_micro_batch": 30}])
def test_one_forward_is_both_the_reading_and_the_update(policy, fit, rollout, rules, cut):
    batch = replace(rollout, truncated=torch.arange(8) == 5, sampler_logp=torch.full((8, 15), -2.0))
    modules = [plain(policy(**cut, skip_old_logp_forward=once), rules) for once in (True, False)]
    assert [module.reuse_update_forward for module in modules] == [True, False]
    (gradient, metrics), (slope, expected) = (gradient_of(module, fit, batch) for module in modules)
    assert slope.abs().max() > 1e-3
    torch.testing.assert_close(gradient, slope, atol=1e-6, rtol=1e-5)
    assert metrics == pytest.approx(expected, abs=1e-5, nan_ok=True)
    for name in ("old_logp", "old_entropy", "old_sensitivity"):
        ours, theirs = (torch.where(batch.mask, getattr(m.last_rollout.batch, name), 0) for m in modules)
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)
    assert modules[0].last_rollout.affected.keys() == rules.keys()
    for name in rules:
        assert torch.equal(modules[0].last_rollout.affected[name], modules[1].last_rollout.affected[name])


@pytest.mark.parametrize("cut", [{}, {"micro_batch": 2}])
@pytest.mark.parametrize(
    "rules",
    [
        {"truncated_importance": TruncatedImportance(1.5)},
        {"ice_pop": IcePop(0.5, 2.0)},
        {"sequence_importance": SequenceImportance(2.0)},
        {"harmless": Harmless(), "truncated_importance": TruncatedImportance(1.5), "ice_pop": IcePop(0.5, 2.0)},
    ],
    ids=lambda rules: "+".join(rules),
)
def test_a_correction_of_the_sampler_waits_for_the_update_s_forward_to_the_bit(policy, fit, rollout, rules, cut):
    generator = torch.Generator().manual_seed(2)
    sampled = -3.2 + torch.randn(8, 15, generator=generator)
    batch = replace(rollout, truncated=torch.arange(8) == 5, sampler_logp=sampled)
    modules = [plain(policy(**cut, skip_old_logp_forward=once), rules) for once in (True, False)]
    assert [module.reuse_update_forward for module in modules] == [True, False]
    (gradient, metrics), (slope, expected) = (gradient_of(module, fit, batch) for module in modules)
    traces = [module.last_rollout for module in modules]
    assert torch.equal(gradient, slope) and slope.abs().max() > 1e-3
    assert torch.equal(traces[0].credit.advantages, traces[1].credit.advantages)
    assert not torch.equal(traces[0].credit.advantages, traces[0].advantages), "nothing was corrected"
    assert metrics == pytest.approx(expected, abs=0, rel=0, nan_ok=True) and metrics.keys() == expected.keys()
    for name in rules:
        assert torch.equal(traces[0].affected[name], traces[1].affected[name])


def test_a_correction_that_others_follow_or_that_drops_tokens_is_read_before(policy):
    first = {"truncated_importance": TruncatedImportance(1.5), "truncated": WithoutTruncated()}
    dropping = {"sequence_mask": SequenceMask(0.5, 2.0)}
    assert not any(plain(policy(), rules).reuse_update_forward for rules in (first, dropping))


def test_a_correction_without_log_probs_is_refused_before_any_forward(policy, fit, rollout):
    module = plain(policy(), {"truncated_importance": TruncatedImportance(1.5)})
    batch = replace(rollout, sampler_logp=torch.full((8, 15), torch.nan))
    with pytest.raises(ValueError, match=r"credit\.truncated_importance found no sampler log-prob on \d+ tokens"):
        fit(module, [batch])


def test_what_asks_before_the_update_is_answered_by_a_reading_of_its_own(policy, fit, rollout):
    from isentropic.algorithm.advantage.gtpo import Gtpo
    from isentropic.algorithm.control.gate import Gate
    from isentropic.algorithm.penalty.entropy_bonus import EntropyBonus

    shares = {"norm": "split", "unbiased": True, "clamp_low": None, "clamp_high": None, "floor": 1e-6}
    asking = [
        plain(policy(mini_batch=4, micro_batch=4)),
        plain(policy(), control=Gate(target=9.0, step=0.0, ceiling=5.0)),
        plain(policy(), {"truncated": WithoutTruncated()}),  # says nothing of itself
        plain(policy(), advantage=Gtpo(base=1.0, bonus=0.1, **shares)),
        plain(policy(), penalty={"entropy_bonus": EntropyBonus(0.1)}),
    ]
    assert not any(module.reuse_update_forward for module in asking) and plain(policy()).reuse_update_forward


def forwards(module, fit, batch):
    """How often the policy reads the rollout, as one micro-batch."""
    seen, configure = [], module.configure_model

    def watched():
        configure()
        module.policy.register_forward_hook(lambda *_: seen.append(1))

    module.configure_model = watched
    fit(module, [batch])
    return len(seen)


def test_a_rollout_is_read_once_where_it_can_be(policy, fit, rollout):
    assert forwards(plain(policy()), fit, rollout) == 1
    assert forwards(plain(policy(skip_old_logp_forward=False)), fit, rollout) == 2


@pytest.mark.parametrize("cut", [{}, {"micro_batch": 2}, {"micro_batch": None, "max_tokens_per_micro_batch": 30}])
def test_what_the_sampler_tells_stands_for_a_forward_before_the_update(policy, fit, rollout, cut):
    read = policy(**cut)
    expected = gradient_of(read, fit, rollout)
    known = replace(rollout, sampler_logp=torch.where(rollout.mask, read.last_rollout.batch.old_logp, torch.nan))
    spared = policy(**cut, early_logp="sampler")
    found = gradient_of(spared, fit, known)
    assert spared.reuse_update_forward and not read.reuse_update_forward
    assert spared.last_rollout.affected["stare"].any(), "nothing was lifted"
    assert torch.equal(spared.last_rollout.affected["stare"], read.last_rollout.affected["stare"])
    torch.testing.assert_close(found[0], expected[0], atol=1e-6, rtol=1e-5)
    both = {name: value for name, value in found[1].items() if not name.startswith("sampler/")}
    told = {name: value for name, value in expected[1].items() if not name.startswith("sampler/")}
    assert both == pytest.approx(told, abs=1e-5, nan_ok=True) and "entropy/mean" in told


def test_the_sampler_s_surprisals_open_the_gate_by_their_mean(policy, fit, rollout):
    for surprisal, opened in ((9.1, False), (8.9, True)):  # the target is 9
        module = policy(early_logp="sampler")
        fit(module, [replace(rollout, sampler_logp=torch.full((8, 15), -surprisal))])
        assert bool(module.last_rollout.drive.up) is opened


def test_what_a_sampler_cannot_tell_is_refused(policy, fit, rollout):
    from isentropic.algorithm.credit.top_entropy import TopEntropy

    with pytest.raises(ValueError, match=r"here are 2 with policy\.skip_old_logp_forward=true; take"):
        policy(early_logp="sampler", mini_batch=4, micro_batch=4)
    with pytest.raises(ValueError, match=r"found no log-prob of the sampler on \d+ tokens"):
        fit(policy(early_logp="sampler"), [replace(rollout, sampler_logp=torch.full((8, 15), torch.nan))])
    algorithm = policy().algorithm
    rules = {"truncated_importance": TruncatedImportance(1.5)} | algorithm.credit
    assert replace(algorithm, credit=rules).reads_more_than_logp == ["credit.truncated_importance"]
    assert replace(algorithm, credit=dict(reversed(rules.items()))).reads_more_than_logp == []
    assert replace(algorithm, credit={"top": TopEntropy(0.2)}).reads_more_than_logp == ["credit.top"]


def test_a_later_update_of_one_micro_batch_is_what_its_credit_reads(policy, fit, rollout):
    rules = {"truncated": WithoutTruncated()}
    lone, cut = (plain(policy(mini_batch=4, micro_batch=size), rules) for size in (4, 2))
    assert forwards(lone, fit, rollout) == 2 + 2  # before the first update, and of the two
    assert forwards(cut, fit, rollout) == 4 + 2 + 4  # once more before the second
    mask = lone.last_rollout.batch.mask
    for name in ("logp", "entropy", "sensitivity"):
        ours, theirs = (torch.where(mask, getattr(module.last_rollout.now, name), 0) for module in (lone, cut))
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_the_learning_rate_follows_its_schedule_to_the_last_update(policy, fit, rollout):
    module = policy(schedule=Linear(final=0.5), lr=0.01, mini_batch=4, micro_batch=4)
    metrics = fit(module, [rollout, rollout])
    assert metrics["policy/lr"] == pytest.approx(0.01 * (0.75 + 0.625) / 2)  # of the second rollout's two updates


def test_a_run_that_goes_on_for_longer_has_the_rates_of_the_longer_run_and_says_so(policy, fit, rollout):
    def warmed(rollouts, planned):
        module = policy(lr=0.01, warmup_steps=0, warmup_ratio=0.5)
        module.planned = planned
        return fit(module, [rollout] * rollouts)

    with pytest.warns(UserWarning, match="of a run of 6 optimizer .* was of 2: it goes on at 0.0025, not at 0.005"):
        warmed(6, planned=2)
    with warnings.catch_warnings(record=True) as said:
        warmed(2, planned=2)
    assert not [one for one in said if "learning rate" in str(one.message)]
