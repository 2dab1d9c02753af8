#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of one room that are tied in a circle of includes and calls: none of them can be read, tested or changed alone.

A file is a .c with its .h. It leads to another when it includes its header, or
when it uses a function that the other one defines, whatever header declares it.

  circles.py dataplane/src/router    the circles of a room, and why each file of one leads to the others
"""
import pathlib
import re
import sys

import sources

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
# In this house a definition begins in the first column and its body in the first column of a line of its own, or behind it.
DEFINED = re.compile(r"^(?!static\b|typedef\b|return\b|else\b)[A-Za-z_][\w \t*]*?\b([A-Za-z_]\w*)\s*\((?:[^;{}()]|\([^;{}()]*\))*\)\s*\{", re.M)
# A word that may name a function: no tag of a structure, no member.
WORD = re.compile(r"(?<!struct )(?<!union )(?<!enum )(?<!\.)(?<!->)\b[A-Za-z_]\w*\b")


def unit(path):
    """The name of a file with its header: of the path without its suffix."""
    return path.with_suffix("").as_posix()


def room_files(folder):
    return [pathlib.Path(name) for name in sources.listed(f"{folder}/*.c", f"{folder}/*.h")]


def included(path, text, files):
    """Files of the room that a text includes: beside it, or below one of the folders that includes start from."""
    for name in INCLUDE.findall(text):
        for base in (path.parent, pathlib.Path("dataplane/src"), pathlib.Path("dataplane")):
            target = pathlib.Path(*[p for p in (base / name).parts if p != "."])
            if target in files:
                yield target
                break


def bodies(code):
    """What stands in braces, and macros: of a header that is what it does, the rest declares what others do."""
    kept, depth = [], 0
    for line in code.split("\n"):
        inside = depth > 0
        depth += line.count("{") - line.count("}")
        if inside or "{" in line or line.lstrip().startswith("#"):
            kept.append(line.partition("{")[2] if not inside and "{" in line else line)
    return "\n".join(kept)


def edges(folder):
    """{unit: {unit it leads to: why}} of a room; why: "include", or the functions that it uses."""
    files = room_files(folder)
    texts = {path: (sources.ROOT / path).read_text(errors="replace") for path in files}
    code = {path: sources.bare(text) for path, text in texts.items()}
    home = {}
    for path in files:
        if path.suffix == ".c":
            home.update({name: unit(path) for name in DEFINED.findall(code[path])})
    leads = {unit(path): {} for path in files}
    for path in files:
        here = leads[unit(path)]
        for target in included(path, texts[path], files):
            here.setdefault(unit(target), set()).add("include")
        for word in WORD.findall(code[path] if path.suffix == ".c" else bodies(code[path])):
            if word in home:
                here.setdefault(home[word], set()).add(word)
    for name, others in leads.items():
        others.pop(name, None)
    return leads


def circles(leads):
    """The strongly connected parts of a graph that have more than one member, largest first (Tarjan, without recursion)."""
    number, low, on_path, path, found = {}, {}, set(), [], []
    for root in leads:
        if root in number:
            continue
        work = [(root, iter(leads[root]))]
        number[root] = low[root] = len(number)
        path.append(root)
        on_path.add(root)
        while work:
            node, more = work[-1]
            for to in more:
                if to not in number:
                    number[to] = low[to] = len(number)
                    path.append(to)
                    on_path.add(to)
                    work.append((to, iter(leads[to])))
                    break
                if to in on_path:
                    low[node] = min(low[node], number[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    part = path[path.index(node):]
                    del path[path.index(node):]
                    on_path -= set(part)
                    found.append(sorted(part))
    return sorted((part for part in found if len(part) > 1), key=len, reverse=True)


def rows():
    out = {}
    for name, folder in (("largest_circle_router", "dataplane/src/router"), ("largest_circle_sim", "dataplane/sim")):
        parts = circles(edges(folder))
        out[name] = (len(parts[0]), parts[0]) if parts else (1, [])
    return out


def main(argv):
    if len(argv) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    leads = edges(argv[0])
    for part in circles(leads):
        print(f"a circle of {len(part)} files")
        for name in part:
            print(f"  {name}")
            for other in sorted(set(leads[name]) & set(part)):
                print(f"    -> {other}: {', '.join(sorted(leads[name][other]))}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
