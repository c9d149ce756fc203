"""A causal language model from its folder or from the hub, with all of its weights."""

import re
from typing import Any, cast

from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, PreTrainedModel

OTHER = re.compile(r"For(MaskedLM|PreTraining|QuestionAnswering|MultipleChoice|\w*Classification)$")


def pretrained(path: str, **options: Any) -> PreTrainedModel:
    """As transformers loads it with these options.

    Raises ValueError where weights cannot be read, are of another kind of model, or lack some that transformers would
    draw at random.
    """
    loader = cast(Any, AutoModelForCausalLM)
    try:
        model, found = loader.from_pretrained(path, output_loading_info=True, **options)
    except SafetensorError as error:
        raise ValueError(f"the weights of {path} cannot be read: {error}") from error
    kinds = cast(list[str], model.config.architectures or [])
    if kinds and all(map(OTHER.search, kinds)):
        raise ValueError(f"{path} is {' or '.join(kinds)}, which is no model that writes")
    if lacking := sorted(found["missing_keys"]):
        more = f" and {len(lacking) - 1} more" if lacking[1:] else ""
        raise ValueError(f"{path} lacks weights of {type(model).__name__}, which would be drawn: {lacking[0]}{more}")
    return model
