# SPDX-License-Identifier: Apache-2.0
"""The table of a suite (`make bench`, `make bench-crab`): on the terminal and in docs/lab/performance.md."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "report"))
import explained  # noqa: E402
import report  # noqa: E402

END = "<!-- end of table -->"
HEAD = ("figure", "value", "95 % interval", "goal", "verdict", "date", "how and remarks")


def begin(suite):
    return f"<!-- table: written by make {suite} -->"


def lines(judged, rows):
    """One tuple of texts per figure: judged rows in the order of their goals, then those without a goal."""
    by_name = {r["name"]: r for r in rows}
    out = []
    for j in judged:
        row = by_name.get(j["name"], {})
        unit = j["unit"] or row.get("unit", "")
        goal = f"{j['op']} {report.text(j['goal'])}" if j["op"] else ""
        interval = row.get("interval")
        between = f"{report.text(float(interval[0]))} .. {report.text(float(interval[1]))}" if interval else ""
        how = "; ".join(t for t in (j["how"] if j["op"] else "", row.get("note", "")) if t)
        value = report.text(j["value"]) + (f" {unit}" if unit and j["value"] is not None else "")
        out.append((j["name"], value, between, goal, report.verdict(j), row.get("date", "") + (" quick" if row.get("quick") else ""), how))
    return out


def plain(rows):
    widths = [max(len(r[i]) for r in [HEAD, *rows]) for i in range(len(HEAD) - 1)]
    return "\n".join("  ".join([*(c.ljust(w) for c, w in zip(r, widths)), r[-1]]).rstrip() for r in [HEAD, *rows])


def markdown(rows):
    def cell(text):
        return text.replace("|", "\\|")

    body = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    return "\n".join(body + ["| `" + cell(r[0]) + "` | " + " | ".join(cell(c) for c in r[1:]) + " |" for r in rows])


def parts(path, suite):
    """What stands before, between and behind the two marks of the page."""
    before, rest = path.read_text().split(begin(suite), 1)
    return before, *rest.split(END, 1)


def shown_row(line, how):
    """A line of the page's table as it was measured; how: of the figure's goal, which stands before the note."""
    name, value, between, _, _, date, note = [c.strip().replace("\\|", "|") for c in re.split(r"(?<!\\)\|", line)[1:-1]]
    number, _, unit = value.partition(" ")
    row = {"name": name.strip("`"), "value": None if number == "missing" else float(number), "unit": unit,
           "date": date.removesuffix(" quick"), "quick": date.endswith(" quick"), "note": note.removeprefix(how).removeprefix("; ")}
    return {**row, "interval": [float(b) for b in between.split(" .. ")]} if between else row


def beside(path, suite, how, rows):
    """Rows measured now, and in their places those that the page shows of what was not measured in this tree; how: {figure: meaning}."""
    lines = [line for line in parts(path, suite)[1].splitlines() if line.startswith("| `")]
    page = [shown_row(line, how.get(line.split("`")[1], "")) for line in lines]
    order, at, by_name = [r["name"] for r in page], 0, {r["name"]: r for r in page + rows}
    for row in rows:
        if row["name"] not in order:
            order.insert(at, row["name"])
        at = order.index(row["name"]) + 1
    return [by_name[name] for name in order]


def write_page(path, judged, rows, suite="bench"):
    """Replaces what stands between the two marks of the page."""
    before, _, after = parts(path, suite)
    path.write_text(before + begin(suite) + "\n" + markdown(lines(judged, rows)) + "\n" + END + after)
