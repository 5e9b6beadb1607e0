"""What is measured: one entry per row of the table."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

MODELS = {"smollm2": "models/SmolLM2-135M-Instruct.Q4_1.gguf",
          "gemma3": "models/gemma-3-270m.Q4_K_M.gguf"}
CONTEXT_STEP = 256  # llama.cpp pads a context to this; everyone gets the padded length


@dataclass(frozen=True)
class Work:
    """A prompt, and what is timed: computing it (no steps), or the decode steps that follow it."""
    name: str
    model: str  # a key of MODELS
    prompt_tokens: int
    decode_steps: int = 0

    @property
    def measures(self) -> str:
        return "decode" if self.decode_steps else "prefill"

    @property
    def new_tokens(self) -> int:
        """Tokens to ask for: the first one comes out of the prefill, each step adds one."""
        return self.decode_steps + 1

    @property
    def context(self) -> int:
        needed = self.prompt_tokens + self.new_tokens
        return -(-needed // CONTEXT_STEP) * CONTEXT_STEP


WORKS = (
    Work("smollm2-prefill-512", "smollm2", 512),
    Work("smollm2-prefill-4096", "smollm2", 4096),
    Work("smollm2-decode", "smollm2", 32, 128),
    Work("smollm2-decode-4096", "smollm2", 4096, 32),
    Work("smollm2-decode-7800", "smollm2", 7800, 32),
    Work("gemma3-prefill-512", "gemma3", 512),
    Work("gemma3-decode", "gemma3", 32, 128),
)


def select_works(patterns: list[str]) -> list[Work]:
    """The works that a pattern like `smollm2-*` matches, in the table's order; all without one."""
    if not patterns:
        return list(WORKS)
    for pattern in patterns:
        if not any(fnmatchcase(work.name, pattern) for work in WORKS):
            known = ", ".join(work.name for work in WORKS)
            raise ValueError(f"no work is named '{pattern}'; there are {known}")
    return [work for work in WORKS if any(fnmatchcase(work.name, p) for p in patterns)]
