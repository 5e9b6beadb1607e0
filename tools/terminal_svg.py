#!/usr/bin/env python3
"""Draws a captured terminal session as an SVG: tools/terminal_svg.py < session.txt > session.svg

Lines that start with "$ " are commands. Colours and bold by the usual escape sequences are kept,
every other escape sequence is dropped. `script -qec COMMAND session.txt` captures one.
"""

import argparse
import re
import sys
import unicodedata
from html import escape

FONT_SIZE, CHAR_WIDTH, LINE_HEIGHT = 14, 8.43, 20
MARGIN, TITLE_BAR = 18, 36
BACKGROUND, FOREGROUND, PROMPT, BAR = "#16181d", "#d7dae0", "#7fd1ae", "#23262e"
PALETTE = ("#3b4048", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d7dae0")
STYLE = re.compile(r"\x1b\[([0-9;]*)m")
OTHER_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]")


def after_carriage_returns(line: str) -> str:
    """What a terminal shows of a line that rewrote itself."""
    shown = ""
    for piece in line.rstrip("\r").split("\r"):
        shown = piece + shown[len(piece):]
    return shown


def width(text: str) -> int:
    """Columns that a terminal gives the text."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
               for c in text)


def wrap(line: str, columns: int) -> list[str]:
    """Pieces of at most `columns` columns; escape sequences take none."""
    pieces, piece, used = [], "", 0
    for token in re.split(r"(\x1b\[[0-9;]*m)", line):
        if STYLE.fullmatch(token):
            piece += token
            continue
        for character in token:
            if used + width(character) > columns:
                pieces.append(piece)
                piece, used = "", 0
            piece += character
            used += width(character)
    return pieces + [piece]


def spans(line: str, style: dict) -> str:
    """The line as tspan elements; `style` carries over from one line to the next."""
    out = []
    for i, token in enumerate(re.split(r"\x1b\[([0-9;]*)m", line)):
        if i % 2:  # a style
            for code in (int(c or 0) for c in token.split(";")):
                if code == 0:
                    style.clear()
                elif code == 1:
                    style["font-weight"] = "bold"
                elif code == 2:
                    style["opacity"] = "0.65"
                elif 30 <= code <= 37 or 90 <= code <= 97:
                    style["fill"] = PALETTE[code % 10]
                elif code == 39:
                    style.pop("fill", None)
        elif token:
            attributes = "".join(f' {k}="{v}"' for k, v in style.items())
            out.append(f"<tspan{attributes}>{escape(token)}</tspan>")
    return "".join(out)


def render(session: str, title: str, columns: int) -> str:
    text = OTHER_ESCAPES.sub("", session.expandtabs(8)).rstrip("\n")
    lines = [(piece, line.startswith("$ ")) for line in text.split("\n")
             for piece in wrap(after_carriage_returns(line), columns)]
    w = round(columns * CHAR_WIDTH + 2 * MARGIN)
    h = TITLE_BAR + len(lines) * LINE_HEIGHT + 2 * MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{w}" height="{h}" rx="10" fill="{BACKGROUND}"/>',
        f'<path d="M0 {TITLE_BAR}V10a10 10 0 0 1 10-10h{w - 20}a10 10 0 0 1 10 10v{TITLE_BAR - 10}z" '
        f'fill="{BAR}"/>',
        *(f'<circle cx="{22 + 20 * i}" cy="{TITLE_BAR / 2}" r="6" fill="{colour}"/>'
          for i, colour in enumerate(("#e06c75", "#e5c07b", "#98c379"))),
        f'<text x="{w / 2}" y="{TITLE_BAR / 2 + 5}" fill="#9aa0aa" text-anchor="middle" '
        f'font-family="sans-serif" font-size="13">{escape(title)}</text>',
        f'<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{FONT_SIZE}" '
        f'fill="{FOREGROUND}" xml:space="preserve">',
    ]
    style: dict = {}
    for i, (line, is_command) in enumerate(lines):
        y = TITLE_BAR + MARGIN + i * LINE_HEIGHT + FONT_SIZE
        body = spans(line, style)
        if is_command and line.startswith("$ "):
            body = f'<tspan fill="{PROMPT}">$</tspan><tspan font-weight="bold">' \
                   f"{escape(line[1:])}</tspan>"
        out.append(f'<text x="{MARGIN}" y="{y}">{body}</text>')
    return "\n".join(out + ["</g>", "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--title", default="quire")
    parser.add_argument("--columns", type=int, default=100)
    arguments = parser.parse_args()
    sys.stdout.write(render(sys.stdin.read(), arguments.title, arguments.columns))


if __name__ == "__main__":
    main()
