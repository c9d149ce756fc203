"""Models small enough to build in a test."""

from pathlib import Path

import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

SYMBOLS = ["<pad>", "<eos>", *"0123456789+-*=;,>:"]


def save_tiny_model(folder: Path, tied: bool) -> str:
    """A random Qwen3 of two layers in fp32, and a tokenizer of one character per token: pad 0, eos 1, vocabulary 24."""
    config = Qwen3Config(
        vocab_size=24,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        tie_word_embeddings=tied,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
        initializer_range=0.2,  # far from uniform, so that temperature and stale weights show
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        Qwen3ForCausalLM(config).save_pretrained(folder)
    characters = Tokenizer(models.WordLevel({symbol: i for i, symbol in enumerate(SYMBOLS)}, unk_token="<pad>"))
    characters.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    characters.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=characters, pad_token="<pad>", eos_token="<eos>").save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory) -> str:
    """Folder of a tiny model whose head is its embedding."""
    return save_tiny_model(tmp_path_factory.mktemp("tiny_model"), tied=True)


@pytest.fixture(scope="session")
def tiny_model_untied(tmp_path_factory) -> str:
    return save_tiny_model(tmp_path_factory.mktemp("tiny_model_untied"), tied=False)
