"""A checkpoint to a Hugging Face folder: `isentropic export ckpt_path=…/last.ckpt out=FOLDER`.

ckpt_path  a checkpoint, of one file or sharded, or a run's folder
out      a folder that does not exist yet, or is empty
dtype    bfloat16, or float32 as the policy is kept
merge    of adapters: true for a whole model, false for a folder of peft's, to be set beside its base
model    the model that training started from, where it is no longer where the checkpoint says
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from isentropic.config.build import does_not_exist
from isentropic.config.refused import refuse
from isentropic.runs.files import check_place
from isentropic.runs.subject import checkpoint_in

USAGE = "usage: isentropic export ckpt_path=CHECKPOINT out=FOLDER [dtype=bfloat16] [merge=true] [model=PATH]"
DTYPES = ("float32", "bfloat16")
DEFAULTS = {"ckpt_path": "", "out": "", "dtype": "bfloat16", "merge": "true", "model": ""}


def values_of(arguments: list[str]) -> Mapping[str, str]:
    """Raises ValueError for values that cannot be, before anything slow is imported."""
    for argument in arguments:
        if "=" not in argument:
            raise ValueError(f"{argument} cannot be read; {USAGE}")
    given = {key: value for key, _, value in (argument.partition("=") for argument in arguments)}
    for key in given:
        if key not in DEFAULTS:
            raise ValueError(does_not_exist(key, key, DEFAULTS, "export"))
    values = DEFAULTS | given
    if not values["ckpt_path"] or not values["out"]:
        raise ValueError(USAGE)
    if values["dtype"] not in DTYPES:
        raise ValueError(f"dtype={values['dtype']} is not one of {', '.join(DTYPES)}")
    if values["merge"] not in ("true", "false"):
        raise ValueError(f"merge={values['merge']} is not true or false")
    check_place(values["ckpt_path"])
    return values


def main(arguments: list[str]) -> None:
    try:
        values = values_of(arguments)
        from transformers.utils import logging as transformers_logging

        from isentropic import batch
        from isentropic.policy.export import Request, export

        transformers_logging.disable_progress_bar()
        ckpt, merge = checkpoint_in(Path(values["ckpt_path"])), values["merge"] == "true"
        request = Request(ckpt, Path(values["out"]), batch.DTYPES[values["dtype"]], merge, values["model"] or None)
        export(request)
    except ValueError as error:
        refuse(error)
    print(f"{request.out} holds the policy of {request.ckpt}; use it as policy.model.path={request.out}")


if __name__ == "__main__":
    main(sys.argv[1:])
