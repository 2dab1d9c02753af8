# SPDX-License-Identifier: Apache-2.0
"""Draws curves: one panel beside the other, one colour and dash a series, SVG for the docs and PNG to look at.

`draw(panels, files)` knows nothing of the published figures; anything with x and y may use it.
"""
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib import ticker  # noqa: E402

# Okabe and Ito: told apart with every kind of colour vision, and by their lightness in print.
PALETTE = ["#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
STYLE = {"font.size": 9, "axes.titlesize": 9.5, "axes.labelsize": 9, "legend.fontsize": 8, "axes.spines.top": False, "axes.spines.right": False,
         "axes.grid": True, "grid.color": "#dddddd", "grid.linewidth": 0.6, "lines.linewidth": 1.6, "lines.markersize": 3.6,
         "svg.hashsalt": "bobtail", "svg.fonttype": "path", "figure.dpi": 110}


def colour(value):
    return PALETTE[value] if isinstance(value, int) else value


def one_line(axis, line, panel):
    linear_x = panel.get("whole_x")
    style = ":" if line.get("dot") else "--" if line.get("dash") else "-"
    axis.plot(line["x"], line["y"], style, color=colour(line.get("color", "black")), label=line["label"],
              marker="o" if linear_x else None, linewidth=4.5 if line.get("heavy") else None, alpha=0.5 if line.get("heavy") else None)
    beyond = line.get("beyond", [])
    if beyond:  # an empty line that is not clipped stands at the picture's corner, and no layout fits around it
        axis.plot(beyond, [panel.get("top")] * len(beyond), "^", color=colour(line.get("color", "black")), markersize=8, fillstyle="none", clip_on=False)


def limits(axis, panel):
    if panel.get("log"):
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(ticker.LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
        axis.yaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:g}"))
        axis.yaxis.set_minor_locator(ticker.NullLocator())
    axis.set_ylim(panel.get("low"), panel.get("top"))
    if panel.get("x_from_zero", True):
        axis.set_xlim(left=0)
    if panel.get("limit") is not None:
        axis.axhline(panel["limit"], color="#666666", linewidth=0.9, linestyle=(0, (1, 1)))
        axis.annotate(f"{panel['limit']:g}", (0.01, panel["limit"]), xycoords=("axes fraction", "data"), fontsize=7.5,
                      color="#444444", va="bottom")


def draw(panels, files):
    """panels: [{title, x, y, log, low, top, limit, whole_x, lines: [{label, x, y, color, dash, dot, heavy, beyond}]}];
    heavy lies under a line it equals; beyond: x of values that no axis holds, open triangles at `top`. Writes every file."""
    names = [[line["label"] for line in panel["lines"]] for panel in panels]
    shared = all(n == names[0] for n in names)
    columns = min(len(names[0]), 5 if len(panels) > 1 else 2) if shared else 2
    rows = max(-(-len(n) // columns) for n in names)
    wide, high = (3.1 * len(panels) + 0.5 if len(panels) > 1 else 5.6), 3.1 + 0.19 * rows
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, len(panels), figsize=(wide, high), squeeze=False)
        before = None
        for axis, panel in zip(axes[0], panels):
            one_panel(axis, panel, panel["y"] != before)
            before = panel["y"]
        figure.tight_layout(rect=(0, 0.19 * rows / high, 1, 1))
        legend(figure, axes[0], columns, shared)
        for file in files:
            figure.savefig(file, metadata={"Date": None} if str(file).endswith(".svg") else None)
        plt.close(figure)


def one_panel(axis, panel, with_y):
    for line in panel["lines"]:
        one_line(axis, line, panel)
    limits(axis, panel)
    axis.set_title(panel["title"])
    axis.set_xlabel(panel["x"])
    if with_y:
        axis.set_ylabel(panel["y"])
    if panel.get("whole_x"):
        axis.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))


def legend(figure, axes, columns, shared):
    """Below the panels: one for all when they share their series, else one for each."""
    if shared:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="lower center", ncol=columns, frameon=False)
        return
    for axis in axes:
        inches = axis.get_position().height * figure.get_size_inches()[1]
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.42 / inches), ncol=columns, frameon=False, columnspacing=1.2, handlelength=2.2)
