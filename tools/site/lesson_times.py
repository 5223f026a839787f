"""How long a lesson takes: what a reader needed, where one was timed, and an estimate by one rule everywhere else.

The rule: a minute for WORDS words of the text or LINES lines of code that are not folded, and FIGURE minutes for a figure, rounded to
ten; STARS minutes for an exercise of one, two or three stars, rounded to half an hour. Folded proofs count as text, for they are read.
It was fitted to the four readings below, from which it differs by twenty minutes at most.
"""

import json
import re

WORDS, LINES, FIGURE = 40, 8, 2
STARS = {1: 10, 2: 25, 3: 75}
# minutes that one reader took: (reading, exercises), None where only the reading was timed
MEASURED = {
    "01": ((75, 90), (120, 150)),
    "10": ((110, 110), None),
    "31": ((100, 100), None),
    "60": ((120, 120), None),
}
RULE = (
    f"Estimates: a minute for {WORDS} words or {LINES} lines of code, {FIGURE} for a figure; "
    f"{STARS[1]}, {STARS[2]} or {STARS[3]} minutes for an exercise of one, two or three stars."
)
READER = "Measured: the time that one reader took."


def estimate(notebook):
    """(minutes of reading, minutes of exercises) of a lesson, by the rule."""
    words = lines = figures = exercises = 0
    for cell in json.loads(notebook.read_text("utf8"))["cells"]:
        source = "".join(cell["source"])
        if source.startswith("## Exercises"):
            stars = re.findall(r"^\d+\. (★+)", source, re.M)
            exercises = sum(STARS[len(found)] for found in stars)
        elif cell["cell_type"] == "markdown":
            text = re.sub(r"```.*?```|\$\$.*?\$\$|\$[^$]*\$", "", source, flags=re.S)
            words += len(re.findall(r"[A-Za-z][\w'’-]*", text))
        else:
            folded = "code-fold: true" in source
            lines += 0 if folded else sum(map(bool, map(str.strip, source.splitlines())))
            shown = (output.get("data", {}) for output in cell.get("outputs", []))
            figures += any("image/png" in data for data in shown)
    reading = words / WORDS + lines / LINES + FIGURE * figures
    return round(reading / 10) * 10, round(exercises / 30) * 30


def said(minutes, unit):
    """(75, 90) as "75 to 90 minutes", (120, 150) as "2 to 2.5 hours"."""
    size = {"minutes": 1, "hours": 60}[unit]
    amount = " to ".join(f"{m / size:g}" for m in sorted({*minutes}))
    return "an hour" if (amount, unit) == ("1", "hours") else f"{amount} {unit}"


def card(notebook):
    """(what the card of a lesson says of its time, how that is known)."""
    guessed = [(minutes, minutes) for minutes in estimate(notebook)]
    timed = MEASURED.get(notebook.name[:2], (None, None))
    parts, ways = [], [READER] if any(timed) else []
    for unit, measured, guess in zip(("minutes", "hours"), timed, guessed, strict=True):
        what = "to read" if unit == "minutes" else "of exercises"
        parts.append(f"{'' if measured else 'about '}{said(measured or guess, unit)} {what}")
    kinds = ["measured" if measured else "estimated" for measured in timed]
    if kinds[0] == kinds[1]:
        text = f"{parts[0]}, {parts[1]} ({kinds[0]})"
    else:
        text = ", ".join(f"{part} ({kind})" for part, kind in zip(parts, kinds, strict=True))
    return text[0].upper() + text[1:], " ".join([*ways, *([RULE] if "estimated" in kinds else [])])
