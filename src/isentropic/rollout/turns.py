"""How long may an episode be, and what of the world's answers does the policy read?"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Turns:
    """Budgets of one episode of an environment; rollout.decoding.max_tokens is that of all its chosen tokens.

    Raises ValueError for a budget below 1, and seconds that are not above 0.
    """

    turns: int  # completions
    turn_tokens: int | None  # of one completion; None is what is left
    observation_tokens: int  # of what is read after one completion, with what the chat template puts around it
    observed_tokens: int | None  # of all that is read
    calls: int | None  # of tools
    tool_seconds: float | None  # CPU time of the calls, as the environment counts it
    seconds: float  # wall clock in which the world begins and steps; the rest of the rollout goes on without it
    cut: bool  # longer observations keep head and tail; false ends the episode there, as truncated
    role: str  # of observations in a chat
    thinking: str  # where a chat template drops or rewrites earlier turns: keep them as they were written, or refuse
    shared_world: bool  # one seed of the world for all answers of a group
    workers: int  # threads in which episodes step

    def __post_init__(self) -> None:
        for name in ("turns", "turn_tokens", "observation_tokens", "observed_tokens", "calls", "workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"rollout.turns.{name}={value} must be at least 1")
        for name in ("tool_seconds", "seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"rollout.turns.{name}={value} must be above 0")
        if self.thinking not in ("keep", "refuse"):
            raise ValueError(f"rollout.turns.thinking={self.thinking} is not one of keep, refuse")

    @property
    def observed_at_most(self) -> int:
        """Tokens of all observations: none is read after the last turn."""
        most = (self.turns - 1) * self.observation_tokens
        return most if self.observed_tokens is None else min(most, self.observed_tokens)
