"""A causal language model as one module: tokens in, log-probs and entropies out; and how it is sharded."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule
from transformers import AutoConfig, PretrainedConfig, PreTrainedModel

from isentropic.batch import DTYPES, EntropyMode, Ids, Mask, PerToken, RolloutBatch, TokenStats
from isentropic.policy.batching.micro_batches import MicroBatch
from isentropic.policy.batching.packing import PackedSequences, Prompts, prompts_of
from isentropic.policy.model import fsdp, loading, lora, self_check
from isentropic.policy.model.identity import shape
from isentropic.policy.model.layers import CHECKPOINTING, configure_layers
from isentropic.policy.model.logprobs import Head, row_stats, token_stats
from isentropic.policy.model.lora import LoraSettings
from isentropic.policy.model.mixed_precision import low_precision_weights
from isentropic.policy.model.own_head import body_name, own_head
from isentropic.policy.model.packed_attention import caps_scores
from isentropic.policy.model.two_rows import Settled


@dataclass(frozen=True)
class ModelSettings:
    """Weights are always kept in fp32: in bf16, AdamW at the usual learning rates moves nothing.

    Raises ValueError for a name or a number that is none of those below.
    """

    path: str  # a Hugging Face folder, or a name on the hub
    compute_dtype: str  # float32 or bfloat16, of matrix products
    logits_chunk: int  # response tokens whose logits exist at one time
    packing: bool  # packed (varlen) sequences, without padding; padded rectangles where a model cannot
    activation_checkpointing: str  # none, selective (keeps products and attention) or full (keeps inputs of layers)
    compile: bool  # layers as fused kernels, made at the first forward of 1,024 tokens or more
    share_prompts: bool = False  # in packed sequences, a prompt is computed once for all of its answers
    joined_qkv: bool = False  # queries, keys and values of a layer by one matrix product

    def __post_init__(self) -> None:
        if self.compute_dtype not in DTYPES:
            raise ValueError(f"compute_dtype={self.compute_dtype} is not one of {', '.join(DTYPES)}")
        if self.activation_checkpointing not in CHECKPOINTING:
            raise ValueError(
                f"activation_checkpointing={self.activation_checkpointing} is not one of {', '.join(CHECKPOINTING)}"
            )
        if self.logits_chunk < 1:
            raise ValueError(f"logits_chunk={self.logits_chunk} must be at least 1")
        if self.share_prompts and not self.packing:
            raise ValueError(
                "share_prompts=true needs packing=true: in a padded rectangle each row has its own copy of its prompt"
            )
        looks_local = self.path.startswith((".", "/", "~")) or self.path.count("/") > 1
        if looks_local and not (Path(self.path) / "config.json").is_file():
            raise ValueError(f"path={self.path} is not a model folder: there is no config.json in it")


class LanguageModel(Settled):
    """Backward passes of a forward belong into one `mixed_precision()` with it.

    With a mesh it is sharded over it by FSDP2, and each rank reads its own part of the folder alone.
    """

    def __init__(
        self, settings: ModelSettings, mesh: DeviceMesh | None = None, adapter: LoraSettings | None = None
    ) -> None:
        super().__init__()
        self.settings, self.adapter = settings, adapter
        config = AutoConfig.from_pretrained(settings.path)
        forbid_dropout(config)
        if caps_scores(config):
            config._attn_implementation = "eager"
        dtype = torch.float32 if adapter is None else DTYPES[adapter.base_dtype]
        bare = None if mesh is None else loading.skeleton(settings.path, config, dtype)
        self.lm: PreTrainedModel = bare or loading.whole(settings.path, config, dtype)
        if adapter is not None:
            adapter.inject(self.lm, settings.path)
        self.packed = self.shares_prompts = self.uses_own_head = self.always_eval = False
        if settings.activation_checkpointing != "none" or settings.compile:
            configure_layers(self.layers, settings.activation_checkpointing, settings.compile)
        if mesh is not None:
            self.shard(mesh)
        if mesh is not None and bare is not None:
            loading.materialize(self, fsdp.device_of(mesh))
            loading.fill(self.lm, settings.path)
        if adapter is not None:
            adapter.begin(self.lm)
            lora.keep_adapters_alone(self)
        self_check.settle(self)
        self.reshard()
        self.train()

    @property
    def layers(self) -> nn.ModuleList:
        """Decoder layers, which are sharded, compiled and checkpointed one by one."""
        return cast(nn.ModuleList, self.lm.base_model.layers)

    def train(self, mode: bool = True) -> "LanguageModel":
        """As torch's, but that a model which draws at random while it learns is left in eval."""
        super().train(mode)
        if self.always_eval:
            self.lm.eval()
        return self

    @property
    def head(self) -> Head:
        """Hidden states to logits: one matrix, or all that the model does after its body where that is more."""
        return own_head(self.lm) if self.uses_own_head else cast(nn.Linear, self.lm.get_output_embeddings())

    def shared_prompts(self, batch: RolloutBatch) -> Prompts | None:
        """The prompts that are shared; None where each row is computed by itself."""
        return prompts_of(batch.tokens, batch.mask) if self.shares_prompts else None

    def own_logits(self, tokens: Ids) -> Float[Tensor, "B S V"]:
        """By the model's own forward, all at once: what log-probs are checked against."""
        with self.mixed_precision():
            return self.lm(input_ids=tokens, use_cache=False).logits

    def forward(
        self,
        tokens: Ids,
        mask: Mask,
        width: int,
        temperature: float,
        wanted: EntropyMode = "value",
        packed: PackedSequences | None = None,
    ) -> tuple[PerToken, PerToken, PerToken]:
        """Rows start at their first token and are padded on the right, so causality alone hides the padding.

        Only the first `width` columns are read; the mask is false beyond. What it returns is zero off the mask.
        """
        body, head = self.lm.get_submodule(body_name(self.lm)), self.head
        chunk = self.settings.logits_chunk
        with self.mixed_precision():
            if packed is None:
                hidden = body(input_ids=tokens[:, : width - 1], use_cache=False).last_hidden_state
                return token_stats(hidden, head, tokens, mask, temperature, chunk, wanted)
            hidden = body(
                input_ids=tokens[packed.row, packed.column][None], position_ids=packed.column[None], use_cache=False,
                cu_seqlens=packed.cu_seqlens, max_seqlen=packed.max_seqlen,
                **({} if packed.shared is None else vars(packed.shared)),
            ).last_hidden_state[0]  # fmt: skip
            states, targets = hidden.index_select(0, packed.predictors), tokens[packed.targets]
            values = row_stats(states, head, targets, temperature, chunk, wanted)
            blank = values[0].new_zeros(mask.shape)
            logp, entropy, sensitivity = (blank.index_put(packed.targets, value) for value in values)
            return logp, entropy, sensitivity

    def mixed_precision(self) -> AbstractContextManager[None]:
        """Inside, matrix products are in compute_dtype, with copies of the current fp32 weights."""
        sharded = isinstance(self, FSDPModule)  # FSDP2 does this itself
        return nullcontext() if sharded else low_precision_weights(self.lm, DTYPES[self.settings.compute_dtype])

    def keep_gathered(self, enabled: bool) -> AbstractContextManager[None]:
        """Inside, shards are gathered only once, at their first use; optimizer steps belong outside."""
        if enabled and isinstance(self, FSDPModule):
            return fsdp.keep_gathered(self, cast(Sequence[FSDPModule], self.layers))
        return nullcontext()

    def token_stats(
        self, batch: RolloutBatch, micro: MicroBatch, temperature: float, wanted: EntropyMode
    ) -> TokenStats:
        """Of a micro-batch's rows, with a gradient of logp, and of entropy if `wanted` says so; zero off the mask."""
        rows = batch[micro.rows]
        values = self(rows.tokens, rows.mask, micro.width, temperature, wanted, micro.packed)
        # views, as a gradient asked for at what forward itself returned would start FSDP2's backward pass: weights
        # would be gathered for nothing, and in the real pass none would be prefetched
        return TokenStats(*(value.view_as(value) for value in values))

    @torch.no_grad()
    def batch_stats(
        self, batch: RolloutBatch, micros: Sequence[MicroBatch], temperature: float, wanted: EntropyMode
    ) -> TokenStats:
        """Of all rows, one micro-batch at a time; zero off the mask. Collective where it is sharded."""
        whole = TokenStats(*torch.zeros(3, *batch.mask.shape, device=batch.mask.device))
        with self.mixed_precision():
            for micro in micros:
                stats = self.token_stats(batch, micro, temperature, wanted)
                if micro.real:
                    for f in fields(TokenStats):
                        getattr(whole, f.name)[micro.rows] = getattr(stats, f.name)
        return whole

    def shard(self, mesh: DeviceMesh) -> None:
        """By FSDP2 over the ranks of the mesh, in place; products are in compute_dtype."""
        fsdp.shard(self, self.layers, mesh, DTYPES[self.settings.compute_dtype])

    def reshard(self) -> None:
        """Frees what a forward without a backward pass leaves gathered: FSDP2's own method where it is sharded."""

    def shape(self) -> dict[str, int | str | None]:
        """What two models must have in common for the weights of one to fit into the other."""
        return shape(self.lm.config)

    def weights(self, dtype: str | None = None) -> Iterator[tuple[str, Tensor]]:
        """Whole tensors by Hugging Face names, tied aliases included, in `dtype`, or in that in which they are kept.

        Collective: every rank reads to the end. One tensor, or two small buckets, are whole at one time.
        """
        state = self.lm.state_dict()
        named = iter(state.items()) if self.adapter is None else self.adapter.merged(state)
        return fsdp.gathered(named, None if dtype is None else DTYPES[dtype])


def forbid_dropout(config: PretrainedConfig) -> None:
    """Two forwards of a token must agree, or the importance ratio of an unchanged policy is not 1."""
    for name, value in config.to_dict().items():
        if "drop" in name and isinstance(value, float):
            setattr(config, name, 0.0)
