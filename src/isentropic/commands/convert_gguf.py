"""A GGUF file to a Hugging Face folder, for policy and sampler: `isentropic convert FILE.gguf FOLDER`."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from isentropic.config.refused import refuse

USAGE = "usage: isentropic convert FILE.gguf FOLDER"
NEEDED = ("gguf", "accelerate")  # what transformers needs to read the format, beyond this package's own dependencies


def check(source: Path, folder: Path) -> None:
    """Raises ValueError for a source that is no GGUF file, a folder that holds something, or a missing package."""
    if not source.is_file():
        raise ValueError(f"{source} does not exist; give the path of a .gguf file")
    with source.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise ValueError(f"{source} begins with {magic!r}, so it is no GGUF file, which begins with b'GGUF'")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ValueError(f"{folder} is not empty; give a folder that does not exist yet")
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise ValueError(f"reading GGUF needs {' and '.join(missing)}, not installed: pip install {' '.join(missing)}")


def convert(source: Path, folder: Path) -> None:
    """Writes config, bf16 safetensors and tokenizer with its chat template. Weights stay as rounded as in the file.

    Raises ValueError as `check` does, and for weights that do not fit the model the file names.
    """
    check(source, folder)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    read: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, dtype=torch.float32
    )
    config: Any = read.config
    # with this left in, transformers refuses to save, and loaders look for a GGUF file
    del config.quantization_config  # pyright: ignore[reportAttributeAccessIssue]
    config.dtype = torch.bfloat16
    config.architectures = [type(read).__name__]
    dense: Any = type(read)(config)
    dense.load_state_dict(read.state_dict())
    dense.generation_config = read.generation_config
    dense.to(torch.bfloat16).save_pretrained(folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    tokenizer.save_pretrained(folder)


def main(arguments: list[str]) -> None:
    if len(arguments) != 2:
        refuse(USAGE)
    source, folder = (Path(argument) for argument in arguments)
    try:
        convert(source, folder)
    except ValueError as error:
        refuse(error)
    print(f"{folder} holds {source.name} in bf16; use it as policy.model.path={folder}")


if __name__ == "__main__":
    main(sys.argv[1:])
