"""A drawing of decode speed against depth, as SVG, from a result alone."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 56, 56
# Told apart by people who do not see red and green as different, too.
COLORS = {"quire": "#0072b2", "quire_avx2": "#56b4e9", "other": "#999999", "llama_cpp": "#d55e00",
          "openvino": "#009e73"}


def series(result: dict, model: str) -> dict[str, list[tuple[int, dict]]]:
    """For each engine (depth, figures) of the decode works, shallow ones first.

    The depth is the middle of the steps: the cache grows while they are timed.
    """
    depths = {w["name"]: w["prompt_tokens"] + w["decode_steps"] // 2 for w in result["works"]
              if w["measures"] == "decode" and w["model"] == model}
    out: dict[str, list[tuple[int, dict]]] = {}
    for entry in result["summary"]:
        for engine, figures in entry["cells"].items() if entry["work"] in depths else ():
            if figures["samples"]:
                out.setdefault(engine, []).append((depths[entry["work"]], figures))
    return {engine: sorted(points, key=lambda p: p[0]) for engine, points in out.items()}


def round_step(limit: float, steps: int = 5) -> float:
    """A step of 1, 2 or 5 times a power of ten that reaches the limit in about `steps`."""
    if limit <= 0:
        return 1.0
    power = 10 ** math.floor(math.log10(limit / steps))
    return next(m * power for m in (1, 2, 5, 10) if m * power * steps >= limit)


def text(x: float, y: float, words: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, color: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"/>'


def depth_plot(result: dict, model: str) -> str | None:
    """The SVG, or None where fewer than two depths were measured."""
    curves = series(result, model)
    points = [point for curve in curves.values() for point in curve]
    if len({depth for depth, _ in points}) < 2:
        return None
    x_step = round_step(max(depth for depth, _ in points))
    y_step = round_step(max(figures["max"] for _, figures in points))
    x_limit = math.ceil(max(depth for depth, _ in points) / x_step) * x_step
    y_limit = math.ceil(max(figures["max"] for _, figures in points) / y_step) * y_step

    def x(depth: float) -> float:
        return LEFT + depth / x_limit * (WIDTH - LEFT - RIGHT)

    def y(speed: float) -> float:
        return HEIGHT - BOTTOM - speed / y_limit * (HEIGHT - TOP - BOTTOM)

    title = f"Decode speed against depth, {model}"
    settings = result["settings"]
    subtitle = (f"{result['machine']['cpu']}, {settings['kv_type']} cache, threads: "
                f"{settings['threads']}, rounds: {settings['rounds']}; medians, lowest to highest")
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           'font-family="sans-serif" font-size="12">', f"<title>{escape(title)}</title>",
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           text(LEFT, 22, title, "start", ' font-size="16"'),
           text(LEFT, 40, subtitle, "start", ' fill="#555555"')]
    for i in range(round(y_limit / y_step) + 1):
        out += [line(LEFT, y(i * y_step), WIDTH - RIGHT, y(i * y_step), "#dddddd"),
                text(LEFT - 8, y(i * y_step) + 4, f"{i * y_step:g}", "end")]
    for i in range(round(x_limit / x_step) + 1):
        out += [line(x(i * x_step), y(0), x(i * x_step), y(0) + 5, "#555555"),
                text(x(i * x_step), y(0) + 19, f"{i * x_step:g}")]
    middle = (TOP + HEIGHT - BOTTOM) / 2
    out += [text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "tokens in the cache"),
            text(18, middle, "tokens/s", "middle", f' transform="rotate(-90 18 {middle})"')]
    for i, (engine, curve) in enumerate(curves.items()):
        color = COLORS.get(engine, "#000000")
        path = " ".join(f"{x(d):.1f},{y(f['median']):.1f}" for d, f in curve)
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        for depth, figures in curve:
            out += [line(x(depth), y(figures["min"]), x(depth), y(figures["max"]), color),
                    f'<circle cx="{x(depth):.1f}" cy="{y(figures["median"]):.1f}" r="3.5" '
                    f'fill="{color}"/>']
        legend = TOP + 10 + 18 * i
        out += [f'<rect x="{WIDTH - RIGHT - 110}" y="{legend}" width="12" height="12" '
                f'fill="{color}"/>',
                text(WIDTH - RIGHT - 92, legend + 10, engine, "start")]
    return "\n".join([*out, "</svg>", ""])
