"""Which causal models of transformers are read right, and how: each in miniature, measured against its own forward.

python benchmarks/families.py         # prints what it measures, a family a line
python benchmarks/families.py --page  # and writes docs/models.md
"""

import argparse
import re
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from isentropic.policy.batching.micro_batches import micro_batches
from isentropic.policy.batching.packing import prompts_of
from isentropic.policy.model.language_model import LanguageModel, ModelSettings

PAGE = Path(__file__).parents[1] / "docs" / "models.md"
CLOSE = 2e-3  # nats of the worst token, in fp32
# Settings whose names match, of the first line that they do, are set to this in miniature; others stay.
SIZES = {
    r".*vocab_size.*": 64,
    r"num_hidden_layers|n_layers?|num_layers|(de|en)coder_layers|num_blocks|num_decoder_layers": 2,
    r"num_kv_heads|n_kv_heads|kv_n_heads|num_query_groups|linear_num_key_heads|.*key_value_heads": 2,
    r"mamba_n_heads|n_mamba_heads": 8,
    r"(num_|n_).*heads?|.*_attention_heads|mamba_num_heads|linear_num_value_heads": 4,
    r"head_dim|dim_head|kv_channels|.*_head_dim|d_kv|head_size|mamba_headdim|mamba_d_head|rotary_dim": 8,
    r"hidden_size|n_embd|d_model|dim|embedding_size|em.*_dim|word_embed_proj_dim|hidden_dim|lru_width": 32,
    r"attention_hidden_size": 32,
    r".*(intermediate_size|ffn_dim|dim_ff|dff|d_ff|d_inner|n_inner|inner_dim|ffn_hidden_size|ffn_size).*": 48,
    r"max_position_embeddings|n_positions|n_ctx|max_seq.*_len.*|seq_length|max_(source|target)_positions": 128,
    r"sliding_window.*|window_size|attention_chunk_size|attention_window_size|keep_window_size|local_attention": 5,
    r"n_group|topk_group": 1,
    r"num_experts_per_tok.*|moe_topk|moe_k|top_k|moe_top_k|top_k_experts": 2,
    r"num_experts|num_local_experts|n_routed_experts|moe_num_experts|num_routed_experts": 4,
    r".*lora_rank|adapter_rank|router_hidden_size": 16,
    r"mamba_d_state|state_size|mamba_d_conv|ssm_state_size": 4,
    r"(?!chunk_size_feed).*chunk_size": 8,
}
REALS = {  # large, so that nothing is nearly uniform, and what heads do shows
    r"initializer_range|init_std": 0.2,
    r".*logit.*soft_?cap.*|logits?_scal(e|ing)|lm_head_multiplier": 3.0,
}
KINDS = r"layer_types|block_types|layers_block_type|mlp_layer_types"
LATENT = {"num_key_value_heads": 4, "qk_head_dim": 16, "head_dim": 8}  # where keys are latent, all heads have their own
OWN: dict[str, dict[str, Any]] = {  # what names do not tell
    "blt": {"encoder_hash_byte_group_vocab": 64},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1},
    "falcon_h1": {"mamba_d_ssm": 64, "mamba_n_heads": 8, "mamba_d_head": 8},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8, "num_experts": 4},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "longcat_flash": {"head_dim": 8, "qk_head_dim": 16},
    "mamba2": {"num_heads": 8, "n_groups": 1},
    "ministral": {"head_dim": 8},
    "nemotron": {"num_key_value_heads": 2},
    "nemotron_h": {"n_groups": 2},
    "reformer": {"axial_pos_embds_dim": [16, 16], "axial_pos_shape": [8, 16], "local_attn_chunk_length": 8},
    "qwen2": {"use_sliding_window": True, "layer_types": ["sliding_attention", "full_attention"]},
    "qwen3": {"use_sliding_window": True, "layer_types": ["sliding_attention", "full_attention"]},
    "xmod": {"default_language": "en_XX", "languages": ["en_XX"]},
    "zaya": {"num_experts_per_tok": 1},
}


@dataclass(frozen=True)
class Family:
    """What became of one, and how far off its log-probs are at most, in nats."""

    name: str
    rows: str  # packed, padded, refused or untried
    why: str = ""
    head: str = ""  # own: more than one matrix product
    mode: str = ""  # eval: also while it learns
    prompts: str = ""  # shared or each
    off: float = 0.0
    gradient: float = 0.0  # how far packed gradients are from padded ones, as a part of them; NaN where not finite
    seconds: float = 0.0


def shrunk(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a config in miniature, those of configs inside of it too."""
    small: dict[str, Any] = {}
    for name, value in settings.items():
        if name.endswith("token_id") and isinstance(value, int):
            small[name] = 0 if name == "pad_token_id" else 1
        elif isinstance(value, dict) and "config" in name:
            small[name] = shrunk(value) | {key: value[key] for key in ("model_type",) if key in value}
        elif isinstance(value, list) and re.fullmatch(KINDS, name):
            small[name] = list(dict.fromkeys(value))[:4]
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            sizes = SIZES if isinstance(value, int) else REALS
            given = [size for pattern, size in sizes.items() if re.fullmatch(pattern, name)]
            small |= {name: given[0]} if given else {}
    if "kv_lora_rank" in small:
        small |= {name: size for name, size in LATENT.items() if name in small}
    kinds = [name for name in small if re.fullmatch(KINDS, name)]
    layers = max([2, *(len(small[name]) for name in kinds)])
    for name in kinds:
        small[name] = (small[name] * layers)[:layers]
    if kinds:
        small |= {name: layers for name in ("num_hidden_layers", "n_layer", "num_layers") if name in small}
    if "sliding_window" in settings:
        small["sliding_window"] = 5
    return small | ({"is_decoder": True} if "is_decoder" in settings else {})


def miniature(name: str) -> PreTrainedModel:
    kind = CONFIG_MAPPING[name]
    config = kind(**(shrunk(kind().to_dict()) | OWN.get(name, {})))
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()


def own_logp(model: PreTrainedModel, tokens: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """By transformers, each row by itself and without padding."""
    logp = torch.zeros(tokens.shape)
    for row, length in enumerate(lengths):
        with torch.no_grad():
            logits = model(input_ids=tokens[row : row + 1, :length], use_cache=False).logits[0, :-1].float()
        logp[row, 1:length] = logits.log_softmax(-1).gather(-1, tokens[row, 1:length, None])[:, 0]
    return logp


def measured(name: str, folder: str) -> Family:
    """Three rows, of which two begin alike, through the model in miniature and through the policy made of it."""
    begun = time.perf_counter()
    lengths, prompt = [31, 22, 12], 7
    tokens = torch.randint(2, 60, (3, 31), generator=torch.Generator().manual_seed(1))
    tokens[1, :prompt] = tokens[0, :prompt]
    columns = torch.arange(31)
    mask = (columns >= prompt) & (columns < torch.tensor(lengths)[:, None])
    try:
        model = miniature(name)
        expected = own_logp(model, tokens, lengths)
        model.save_pretrained(folder)
    except Exception as error:  # whatever transformers says of a config that it has not made itself
        return untried(name, error)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            policy = LanguageModel(ModelSettings(folder, "float32", 64, True, "none", False, share_prompts=True))
        except Exception as error:
            try:
                AutoModelForCausalLM.from_pretrained(folder)
            except Exception as own:
                return untried(name, own)
            if not isinstance(error, ValueError):
                raise
            return Family(name, "refused", reason(str(error), folder), seconds=time.perf_counter() - begun)
    policy.train()
    off, slopes = 0.0, list[torch.Tensor]()
    for rows in [False, True] if policy.packed else [False]:
        for prompts in [None, prompts_of(tokens, mask)] if rows and policy.shares_prompts else [None]:
            policy.zero_grad()
            for micro in micro_batches(mask, None, None, rows, prompts):
                logp = policy(tokens[micro.rows], mask[micro.rows], micro.width, 1.0, "none", micro.packed)[0]
                logp.sum().backward()
                wrong = (logp.detach() - expected[micro.rows])[mask[micro.rows]].abs()
                off = max(off, float(wrong.nan_to_num(torch.inf).max()))
            slopes.append(torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None]))
    gradient = torch.stack([(slope - slopes[0]).norm() / slopes[0].norm() for slope in slopes]).max()
    return Family(
        name, "packed" if policy.packed else "padded",
        "; ".join(reason(str(w.message), folder) for w in said if str(w.message).startswith(folder)),
        "own" if policy.uses_own_head else "", "eval" if policy.always_eval else "",
        "" if not policy.packed else "shared" if policy.shares_prompts else "each",
        off, float(gradient), time.perf_counter() - begun,
    )  # fmt: skip


def untried(name: str, error: Exception) -> Family:
    return Family(name, "untried", f"{type(error).__name__}: {first_line(error)}")


def first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:120]


def reason(sentence: str, folder: str) -> str:
    """What follows 'as', without the numbers, which rounding moves."""
    text = sentence.replace(folder, "it").partition(", as ")[2].partition("; take")[0]
    return re.sub(r"\S+ nats off", "off", text)


def families(names: list[str]) -> Iterator[Family]:
    for name in names or MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        with tempfile.TemporaryDirectory() as folder:
            yield measured(name, folder)


INTRODUCTION = """# Models

As soon as a policy is loaded, two short rows go through the model's own forward, one by one, and through ours: padded
and packed, in eval and in train mode, with any window narrowed so that they pass it. Where log-probs differ by more
than rounding, packed rows become padded ones, the model's own head takes the place of one matrix product, or the model
stays in eval mode while it learns, and a sentence says so; where nothing helps the model is refused. It takes eight
short forwards, and neither gradients nor random numbers move.

The table is written by `python benchmarks/families.py --page`, which makes each model type of transformers'
`AutoModelForCausalLM` in miniature, with random weights, windows of 5 tokens and heads that scale or cap where the type
knows of such, and measures it in fp32 on a CPU: the worst token of three rows, packed, padded and with shared prompts,
is within {close} nats of the model's own forward of each row alone, and packed gradients are the padded ones. A test
fails while this page is older than what is measured.

- **rows**: `packed` where `policy.model.packing=true` packs them; else `padded`, as right, at the cost of the padding.
- **prompts**: whether `policy.model.share_prompts=true` shares them. Where layers have a window, each answer reads its
  own.
- **head**: `own` where logits are more than one matrix product: scaled, capped or transformed. On a GPU it goes without
  the fused kernel, and takes memory for `policy.model.logits_chunk` rows of logits a few times over.
- **mode**: `eval` where the model would draw at random in training.

Of {versions}: {packed} are packed, {padded} padded, {refused} refused, and {untried} could not be made in miniature.
A model that is not in the table is checked all the same.
"""
HEADS = "model type", "rows", "prompts", "head", "mode", "why"


def page(found: list[Family]) -> str:
    counts = {way: sum(one.rows == way for one in found) for way in ("packed", "padded", "refused", "untried")}
    lines = [HEADS, ["---"] * len(HEADS)]
    for one in sorted(found, key=lambda one: (list(counts).index(one.rows), one.name)):
        lines.append([f"`{one.name}`", one.rows, one.prompts, one.head, one.mode, one.why.replace("|", "/")])
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return INTRODUCTION.format(close=CLOSE, versions=versions(), **counts) + "\n" + table


def versions() -> str:
    return f"transformers {transformers.__version__}"


def main() -> None:
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("names", nargs="*", help="model types; all of them where none is named")
    cli.add_argument("--page", action="store_true")
    arguments = cli.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    found = list[Family]()
    for one in families(arguments.names):
        found.append(one)
        print(*(f"{v:.2g}" if isinstance(v, float) else v for v in vars(one).values() if v != ""), flush=True)
    if arguments.page:
        PAGE.write_text(page(found))


if __name__ == "__main__":
    main()
