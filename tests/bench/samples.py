"""Made-up samples and results for the tests of the benchmark."""


def sample(engine: str, work: str, turn: int, speed: float | None, error: str | None = None,
           load_s: float = 0.5, peak: int = 2**20) -> dict:
    return {"engine": engine, "work": work, "round": turn, "error": error, "tokens_per_s": speed,
            "prompt_tokens": 32 if error is None else None,
            "load_s": load_s if error is None else None, "first_tokens": [1, 2],
            "peak_rss_bytes": peak, "cpu_s": 1.5, "wall_s": 1.0, "others_cpu": 0.0}


def limit(work: str, turn: int, speed: float, bound: str = "memory") -> dict:
    return {"work": work, "round": turn, "bound": bound, "tokens_per_s": speed,
            "memory_bytes_per_s": 3e10, "cache_bytes_per_s": 2e11, "int8_macs_per_s": 4e11,
            "f32_macs_per_s": 1e11, "bf16_macs_per_s": None}


def result(samples: list[dict], summary: list[dict], works: list[dict],
           limits: list[dict]) -> dict:
    return {
        "format": 2, "date": "2026-01-02T03:04:05Z",
        "quire": {"commit": "0" * 40, "modified": False, "version": "quire 0.1.0"},
        "machine": {"cpu": "Some CPU", "cpus": 2, "memory_bytes": 2**33, "kernel": "6.1",
                    "isa": ["avx2"], "load_average": [0.0, 0.0, 0.0]},
        "settings": {"threads": 2, "rounds": 3, "kv_type": "f16",
                     "engines": {"quire": {"kv_type": "f16", "isa": None}},
                     "flash_attention": True, "quire_arguments": [], "environment": {}},
        "peers": {"openvino": "openvino-genai==1.0"}, "works": works, "samples": samples,
        "limits": limits, "summary": summary}


def work(name: str, prompt_tokens: int = 32, steps: int = 128, batch: int = 1) -> dict:
    return {"name": name, "model": "smollm2", "measures": "decode" if steps else "prefill",
            "prompt_tokens": prompt_tokens, "decode_steps": steps, "batch": batch,
            "context": 8192, "needs": {"weight_bytes": 2**20, "kv_bytes": 2**20}}
