"""Which rollouts are kept, and at what reward? Curators run in the order they are listed."""

from abc import ABC, abstractmethod
from typing import ClassVar

from isentropic.batch import RolloutBatch


class Curator(ABC):
    """Sees whole groups, before the policy does. What it drops is asked for anew."""

    replaces_reward: ClassVar[bool] = False  # whether nothing of the rewards before it is left
    charges_length: ClassVar[bool] = False  # whether long answers lose reward by it
    charges: ClassVar[bool] = False  # whether it only takes off rewards, which curation/<name> then logs

    @abstractmethod
    def __call__(self, batch: RolloutBatch) -> RolloutBatch:
        """Fewer whole groups, or the same rows with another reward or mask; a batch of no rows is possible.

        On each rank.
        """
