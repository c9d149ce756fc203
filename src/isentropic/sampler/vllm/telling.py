"""The short way in a process of its own, `vllm serve`: a completion is told once, when it has ended.

The server passes on what each step brings, and makes of each log-prob an object with the token's text. Whole
completions and their log-probs as plain lists keep it out of the way: the engine says them in the field that it passes
on unread.
"""

# pyright: basic, reportAttributeAccessIssue=false

from typing import Any

from isentropic.sampler.vllm.fast_scheduler import ShortAsyncScheduler, ShortScheduler
from isentropic.sampler.vllm.sampling_params import ROW, SAYS, TOLD


class Telling:
    """To be mixed into a scheduler that takes the short way."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.passed: dict[str, int] = {}  # tokens of each request that were passed on before its end

    def add_request(self: Any, request: Any) -> None:
        extra = (request.sampling_params and request.sampling_params.extra_args) or {}
        if self.short and SAYS in extra:
            request.sampling_params.logprobs = 0 if extra[SAYS] else None
            extra[ROW] = request.request_id
        super().add_request(request)

    def update_from_output(self: Any, *args: Any) -> Any:
        outputs = super().update_from_output(*args)
        for output in (output for group in outputs.values() for output in group.outputs):
            one = output.request_id
            if written := self.written.pop(one, None):
                output.new_token_ids = written.tokens[self.passed.pop(one, 0) :]
                output.kv_transfer_params = {TOLD: written.logp}
            elif one in self.notes:
                self.passed[one] = self.passed.get(one, 0) + len(output.new_token_ids)
        return outputs


class TellingScheduler(Telling, ShortScheduler):
    """Where the engine waits for each step's tokens before it plans the next."""


class TellingAsyncScheduler(Telling, ShortAsyncScheduler):
    """Where the engine plans a step while the card computes the one before."""
