"""How weights reach a server: over NCCL from the card of rank 0, or as a file that both sides see."""

# pyright: basic

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from socket import create_server, gethostname

import torch
from torch import Tensor

from isentropic.sampler.vllm.http import SOCKET, Service

CHUNK = 2**30  # bytes of weights that are announced at one time


class Transfer(ABC):
    """Of whole tensors, in the server's dtype. Raises RuntimeError where the server refuses."""

    @abstractmethod
    def send(self, service: Service, weights: Iterable[tuple[str, Tensor]]) -> None:
        """All weights by name, of any shape, until the server has loaded them."""

    def close(self) -> None:
        """Takes away what it left."""


class FileTransfer(Transfer):
    """A safetensors file, written whole before the server reads it; for servers that share a disk, and on CPU."""

    def __init__(self, folder: str, path: str) -> None:
        self.folder, self.path = Path(folder), Path(path)

    def send(self, service: Service, weights: Iterable[tuple[str, Tensor]]) -> None:
        from safetensors.torch import save_file

        self.folder.mkdir(parents=True, exist_ok=True)
        if self.path.is_dir():
            shutil.copy(self.path / "config.json", self.folder)
        # tied weights are written twice: on CPU the server keeps a packed head apart from the embedding
        save_file({name: tensor.cpu().clone() for name, tensor in weights}, self.folder / "new", {"format": "pt"})
        os.replace(self.folder / "new", self.folder / "model.safetensors")
        service.call("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(self.folder)}})

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class NcclTransfer(Transfer):
    """vLLM's weight transfer: broadcasts of one tensor after the other, to workers that were told names and shapes.

    A load that fails ends the update on both sides, and, where tensors were under way, the group; the next meets anew.
    """

    def __init__(self) -> None:
        self.group = None

    def meet(self, service: Service) -> None:
        """Makes the group of this process, rank 0, and all workers of the server."""
        from vllm.distributed.weight_transfer.nccl_common import trainer_init

        workers = service.call("/get_world_size", get=True)["world_size"]
        local = service.url.startswith(SOCKET) or "127.0.0.1" in service.url or "localhost" in service.url
        with create_server(("127.0.0.1" if local else "", 0)) as listener:
            port = listener.getsockname()[1]
        place = {"master_address": "127.0.0.1" if local else gethostname(), "master_port": port}
        told = place | {"rank_offset": 1, "world_size": 1 + workers}
        with ThreadPoolExecutor(1) as aside:  # the workers' call returns when this side has come too
            joined = aside.submit(service.call, "/init_weight_transfer_engine", {"init_info": told})
            try:
                self.group = trainer_init(place | {"world_size": 1 + workers})
            except Exception:
                joined.result()  # what the server says of it tells more
                raise
            joined.result()

    def send(self, service: Service, weights: Iterable[tuple[str, Tensor]]) -> None:
        if self.group is None:
            self.meet(service)
        service.call("/start_weight_update")
        chunk: list[tuple[str, Tensor]] = []
        size = 0
        try:
            for name, tensor in weights:
                chunk.append((name, tensor.cuda().contiguous()))
                size += tensor.nbytes
                if size >= CHUNK:
                    self.broadcast(service, chunk)
                    chunk, size = [], 0
            self.broadcast(service, chunk)
        except BaseException:
            with suppress(RuntimeError):  # a server in the middle of an update refuses the next
                service.call("/finish_weight_update")
            raise
        service.call("/finish_weight_update")

    def broadcast(self, service: Service, chunk: list[tuple[str, Tensor]]) -> None:
        """One chunk of named tensors of any shape.

        An error leaves the group, as workers may wait for what was announced.
        """
        if not chunk:
            return
        told = {
            "names": [name for name, _ in chunk],
            "dtype_names": [str(tensor.dtype).removeprefix("torch.") for _, tensor in chunk],
            "shapes": [list(tensor.shape) for _, tensor in chunk],
        }
        with ThreadPoolExecutor(1) as aside:
            taken = aside.submit(service.call, "/update_weights", {"update_info": told})
            try:
                for _, tensor in chunk:
                    self.group.broadcast(tensor, src=0, stream=torch.cuda.current_stream())  # pyright: ignore
                taken.result()
            except BaseException:
                self.close()  # else what was sent waits on this card for a receiver, and all after it with it
                raise

    def close(self) -> None:
        if self.group is not None:
            self.group.destroy()
        self.group = None
