"""Which rollouts are kept, and at what reward? Curators run in the order they are listed."""

from abc import ABC, abstractmethod

from isentropic.batch import RolloutBatch


class Curator(ABC):
    """Sees whole groups, before the policy does. What it drops is asked for anew."""

    @abstractmethod
    def __call__(self, batch: RolloutBatch) -> RolloutBatch: ...
