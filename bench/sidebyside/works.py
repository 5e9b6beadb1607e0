"""What is measured: one entry per row of the table."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

MODELS = {"smollm2": "models/SmolLM2-135M-Instruct.Q4_1.gguf",
          "gemma3": "models/gemma-3-270m.Q4_K_M.gguf"}
CONTEXT_STEP = 256  # llama.cpp pads a context to this; everyone gets the padded length
SHORT = 32  # tokens of a prompt that hardly counts
DEPTHS = (512, 1024, 2048, 4096, 7800)  # 7,800 is near the 8,192 that SmolLM2 was trained for
BATCHES = (2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Work:
    """A prompt, and what is timed: computing it (no steps), or the decode steps that follow it."""
    name: str
    model: str  # a key of MODELS
    prompt_tokens: int
    decode_steps: int = 0
    batch: int = 1  # sequences that decode together, each with a prompt of its own
    by_default: bool = True

    @property
    def measures(self) -> str:
        return "decode" if self.decode_steps else "prefill"


@dataclass(frozen=True)
class Job:
    """What one process does: a prompt and the steps after it, which may be two works at once."""
    works: tuple[Work, ...]

    @property
    def model(self) -> str:
        return self.works[0].model

    @property
    def prompt_tokens(self) -> int:
        return self.works[0].prompt_tokens

    @property
    def batch(self) -> int:
        return self.works[0].batch

    @property
    def decode_steps(self) -> int:
        return max(work.decode_steps for work in self.works)

    @property
    def new_tokens(self) -> int:
        """Tokens to ask for: the first one comes out of the prefill, each step adds one."""
        return self.decode_steps + 1

    @property
    def context(self) -> int:
        """Of each sequence."""
        needed = self.prompt_tokens + self.new_tokens
        return -(-needed // CONTEXT_STEP) * CONTEXT_STEP

    @property
    def cached_tokens(self) -> int:
        """Of all sequences, at the end: the last token of each was not computed."""
        return self.batch * (self.prompt_tokens + self.decode_steps)


WORKS = (
    Work("smollm2-prefill-512", "smollm2", 512),
    Work("smollm2-prefill-4096", "smollm2", 4096),
    Work("smollm2-decode", "smollm2", SHORT, 128),
    *(Work(f"smollm2-decode-{depth}", "smollm2", depth, 32, by_default=depth >= 4096)
      for depth in DEPTHS),
    *(Work(f"smollm2-batch-{batch}", "smollm2", SHORT, 64, batch, by_default=batch >= 16)
      for batch in BATCHES),
    Work("smollm2-memory-2048", "smollm2", 2048 - 256, 256),
    Work("gemma3-prefill-512", "gemma3", 512),
    Work("gemma3-decode", "gemma3", SHORT, 128),
)


def select_works(patterns: list[str]) -> list[Work]:
    """The works that a pattern like `smollm2-*` matches, in the table's order; without one those
    of the table of bars, not all that the plots have."""
    if not patterns:
        return [work for work in WORKS if work.by_default]
    for pattern in patterns:
        if not any(fnmatchcase(work.name, pattern) for work in WORKS):
            known = ", ".join(work.name for work in WORKS)
            raise ValueError(f"no work is named '{pattern}'; there are {known}")
    return [work for work in WORKS if any(fnmatchcase(work.name, p) for p in patterns)]


def jobs_of(works: list[Work]) -> list[Job]:
    """The works with the same prompts in one job each, in the order of the first ones."""
    groups: dict[tuple, list[Work]] = {}
    for work in works:
        groups.setdefault((work.model, work.prompt_tokens, work.batch), []).append(work)
    return [Job(tuple(group)) for group in groups.values()]
