"""How much longer the slowest rank reads than the mean of all, before and after groups have moved, at drawn lengths.

    python benchmarks/balance.py

Lengths are log-normal, e^7 tokens in the middle, with a spread of e^0.5 between problems and as much between the
answers to one, and 8,192 at most. Nothing is timed.
"""

import torch

from isentropic.policy.batching.micro_batches import longest_first

DRAWS = 50
SHAPES = [(2, 32, 8), (4, 16, 8), (8, 8, 8), (8, 64, 16), (64, 8, 16)]  # ranks, groups of each, answers of a group


def excess(held: torch.Tensor) -> float:
    return float(held.max() / held.mean() - 1)


def main() -> None:
    random = torch.Generator().manual_seed(0)
    print("| ranks | groups of a rank | answers of a group | as drawn | balanced | balanced, at worst |")
    print("| --- | --- | --- | --- | --- | --- |")
    for ranks, groups, answers in SHAPES:
        before: list[float] = []
        after: list[float] = []
        for _ in range(DRAWS):
            problem = torch.randn(ranks * groups, 1, generator=random)
            answer = torch.randn(ranks * groups, answers, generator=random)
            tokens = (7 + 0.5 * problem + 0.5 * answer).exp().clamp(max=8192).long().sum(1)
            before.append(excess(tokens.view(ranks, groups).sum(1).double()))
            parts = longest_first(tokens.tolist(), groups, ranks)
            after.append(excess(torch.stack([tokens[part].sum() for part in parts]).double()))
        means = [sum(values) / DRAWS for values in (before, after)]
        print(f"| {ranks} | {groups} | {answers} | {means[0]:.1%} | {means[1]:.2%} | {max(after):.2%} |")


if __name__ == "__main__":
    main()
