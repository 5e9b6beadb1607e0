"""How a driver talks to the benchmark: a request as JSON on standard input, one line back.

Only the standard library: drivers run in the environments of the engines that they drive.
"""

import json
import os
import sys
from collections.abc import Callable


def serve(work: Callable[[dict], dict]) -> None:
    # Libraries like to print; what they say must not get into the reply.
    reply_to = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        reply = work(json.load(sys.stdin))
    except Exception as error:  # whatever an engine refuses with becomes its cell in the table
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reply = {"error": f"{type(error).__name__}: {lines[-1] if lines else ''}"}
    print(json.dumps(reply), file=reply_to, flush=True)
