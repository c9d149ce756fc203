"""A GPU, its node, and how much of what it could do a run gets."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    """Rates are per second and GPU. What is a share is of the peak; configs/card says what is measured of all this."""

    name: str
    memory: float  # GiB
    flops: float  # of bf16 products
    flops_fp32: float  # of fp32 products as torch computes them by default
    bandwidth: float  # bytes of its memory
    links: float  # bytes to other GPUs of the node, in a collective
    network: float  # bytes to other nodes, in a collective
    host: float  # GiB of the node's memory, per GPU
    gpus: int  # of a node
    context: float  # GiB beside tensors: CUDA and its libraries
    collectives: float  # and NCCL's buffers, where ranks share the model
    fragmentation: float  # GiB lost to fragmentation
    workspace: float  # GiB of an engine beside its share: CUDA graphs, logits
    product_share: float  # of flops, in products of many rows
    decode_share: float  # of flops, in products of an engine's step
    narrow: int  # hidden size below which products and attention come to less of these shares
    attention_share: float  # of flops, in attention over packed rows
    bandwidth_share: float
    passes: float  # how often what a layer keeps goes through memory in a forward pass
    passes_fused: float  # the same where layers are compiled
    launch: float  # seconds of a layer's forward pass if it had nothing to compute
    launch_fused: float
    step: float  # seconds of a step of the engine, whatever it does
    sequence: float  # seconds that a sequence adds to a step of the engine
    sequence_default: float  # the same with vLLM's own scheduler
    logprob: float  # and that its log-prob adds
    detokenize: float  # seconds of a token between the engine and the batch
    tensor: float  # seconds to send one tensor to the engine
    tensor_sharded: float  # the same where it is gathered from other ranks first, for each of these on the node
    sync: float  # seconds of waking up, emptying caches and scoring a fixed sequence on both sides
    sleep: float  # bytes of the engine's weights that go to host memory
    wake: float  # and come back
    verify: float  # seconds of an answer's verification
    start: float  # seconds until the first rollout begins

    def overhead(self, shards: int) -> float:
        """GiB beside tensors."""
        return self.context + (self.collectives if shards > 1 else 0.0)

    def utilization(self, hidden: int) -> float:
        """What a model of this hidden size comes to of the shares of a wide one: its products fill fewer of the card's
        processors, its heads are narrower."""
        return min(1.0, (hidden / self.narrow) ** 0.5)
