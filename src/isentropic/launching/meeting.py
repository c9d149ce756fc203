"""Where the processes of a run tell each other what they found, before any process group could hang."""

import json
import os
from datetime import timedelta
from time import monotonic
from typing import Any

from torch.distributed import DistNetworkError, DistStoreError
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import TCPStore  # pyright: ignore[reportPrivateImportUsage]

from isentropic.launching.place import Place


class Meeting:
    """Every process brings, under a topic, one value that JSON can hold; rank 0 collects and tells all."""

    def __init__(self, place: Place, limit: float) -> None:
        """Raises ValueError where rank 0 cannot be reached within `limit` seconds, or its port is taken."""
        self.place = place
        # torchrun's own process keeps the store at that port
        serves = place.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
        patience = timedelta(seconds=limit)
        try:
            store = TCPStore(place.address, place.port, None, serves, patience, wait_for_workers=False)
        except (DistNetworkError, DistStoreError, RuntimeError) as error:
            where = f"MASTER_ADDR={place.address}, MASTER_PORT={place.port}"
            if serves:
                reason = str(error).splitlines()[0]
                raise ValueError(
                    f"{place} cannot wait for the others at {where} ({reason}); set another MASTER_PORT"
                ) from error
            raise ValueError(
                f"{place} cannot reach rank 0 at {where} within {limit:g} s: rank 0 has not started or has ended, the "
                "address is not that of its node, or a firewall closes the port"
            ) from error
        self.store: Store = PrefixStore("preflight", store)

    def part(self, name: str) -> Store:
        """Of the store, over a connection of its own: one that waits for a key lets nobody else speak."""
        connection: Any = self.store
        return PrefixStore(name, connection.clone())

    def bring(self, topic: str, value: Any) -> None:
        self.store.set(f"{topic}/{self.place.rank}", json.dumps(value))

    def collect(self, topic: str, limit: float) -> dict[int, Any]:
        """What each rank brought, but for those that did not within the limit."""
        end = monotonic() + limit
        found = {rank: self.wait(f"{topic}/{rank}", end - monotonic()) for rank in range(self.place.size)}
        return {rank: json.loads(value) for rank, value in found.items() if value is not None}

    def tell(self, topic: str, value: Any) -> None:
        self.store.set(topic, json.dumps(value))

    def hear(self, topic: str, limit: float) -> Any:
        """What rank 0 told. Raises ValueError where it does not within the limit."""
        value = self.wait(topic, limit)
        if value is None:
            raise ValueError(f"{self.place} heard nothing from rank 0 within {limit:g} s ({topic})")
        return json.loads(value)

    def wait(self, key: str, limit: float) -> bytes | None:
        try:
            self.store.wait([key], timedelta(seconds=max(limit, 0.01)))
        except (DistStoreError, DistNetworkError, RuntimeError):  # late, or rank 0 is gone
            return None
        return self.store.get(key)
