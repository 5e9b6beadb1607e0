"""The file that a run leaves: its form, and a check of it."""

FORMAT = 2
NUMBER = (int, float)
OPTIONAL_NUMBER = (int, float, type(None))

# What an object must have. A list with one form in it stands for any number of those.
SAMPLE = {
    "engine": str, "work": str, "round": int, "error": (str, type(None)),
    "tokens_per_s": OPTIONAL_NUMBER,   # of what the work measures
    "prompt_tokens": OPTIONAL_NUMBER,  # as the engine counted them
    "load_s": OPTIONAL_NUMBER,         # from opening the file until a step is possible
    "first_tokens": list,              # what it generated, to see that it did the work
    "peak_rss_bytes": NUMBER,          # of the whole process
    "cpu_s": NUMBER, "wall_s": NUMBER,
    "others_cpu": OPTIONAL_NUMBER,     # the CPUs' share that was spent on anything else, 0 to 1
}
LIMIT = {  # of the machine, measured beside each round of a work
    "work": str, "round": int, "bound": str,
    "tokens_per_s": NUMBER,  # of what the work measures, with all that it needs at these limits
    "memory_bytes_per_s": NUMBER, "cache_bytes_per_s": NUMBER, "int8_macs_per_s": NUMBER,
    "f32_macs_per_s": NUMBER, "bf16_macs_per_s": OPTIONAL_NUMBER,
}
RESULT = {
    "format": int, "date": str,
    "quire": {"commit": str, "modified": bool, "version": str},
    "machine": {"cpu": str, "cpus": int, "memory_bytes": int, "kernel": str, "isa": list,
                "load_average": list},
    "settings": {"threads": int, "rounds": int, "kv_type": str, "engines": dict,
                 "flash_attention": bool, "quire_arguments": list, "environment": dict},
    "peers": dict,  # name -> requirement that is installed
    "works": [{"name": str, "model": str, "measures": str, "prompt_tokens": int,
               "decode_steps": int, "batch": int, "context": int,
               "needs": (dict, type(None))}],  # bytes and multiply-adds, None if not known
    "samples": [SAMPLE],
    "limits": [LIMIT],
    "summary": [{"work": str, "limit": (dict, type(None)), "cells": dict, "ratios": dict}],
}


def faults(value, form=RESULT, where="result") -> list[str]:
    """Every way in which `value` is not of the form; none if it is."""
    if isinstance(form, dict):
        if not isinstance(value, dict):
            return [f"{where} is no object"]
        out = [f"{where}.{key} is missing" for key in form if key not in value]
        out += [f"{where}.{key} is not known" for key in value if key not in form]
        for key in form.keys() & value.keys():
            out += faults(value[key], form[key], f"{where}.{key}")
        return sorted(out)
    if isinstance(form, list):
        if not isinstance(value, list):
            return [f"{where} is no list"]
        return [f for i, item in enumerate(value) for f in faults(item, form[0], f"{where}[{i}]")]
    if not isinstance(value, form) or (isinstance(value, bool) and form is not bool):
        return [f"{where} is {type(value).__name__}"]
    return []
