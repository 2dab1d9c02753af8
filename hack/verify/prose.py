#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Are the pages plain to read, and do their links lead somewhere?

  prose.py check           links and anchors; sentences over 40 words; a mean over 16 words a page; days and commits in manuals
  prose.py measure FILE    docs_* figures for hack/docs/site's report
  prose.py long [PAGE]...  every sentence over 40 words, with its line
  prose.py means           words and sentences of each page, the heaviest first
  prose.py owing           the list of pages that are still too long, as `check` compares it

What is a sentence: the text of paragraphs, list items and quotations. Headings, tables, code, HTML and comments are
none. A sentence ends at `.`, `!` or `?` before a capital letter, a number, code, a quotation mark or a bracket; at
the end of its paragraph or list item; and nowhere else, so a semicolon or a colon does not shorten one. `code` is one
word, and so is the text of a link as many as it has; a dash or an arrow is none.

Pages that are still too long stand in hack/verify/prose-owing.json with what they have now. No page there may get
worse, and one that is mended leaves the list.
"""
import functools
import json
import re
import sys

sys.dont_write_bytecode = True
import pathlib  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pages import PATHS, ROOT, every, with_links  # noqa: E402

MOST = 40  # words of a sentence
MEAN = 16  # words of a page's sentences
OWING = ROOT / "hack/verify/prose-owing.json"
GENERATED = {"docs/reference/api.md", "docs/reference/scenario.md"}
APART = ("docs/lab/", "docs/decisions/")

FENCE = re.compile(r"^( *)(```+|~~~+)")
HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)(?:\s+#+)?$")
ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
QUOTE = re.compile(r"^\s*(?:>\s?)+(?:\[![A-Z]+\])?")
COMMENT = re.compile(r"<!--.*?-->", re.S)
TAG = re.compile(r"</?[a-zA-Z][^>]*>")
SPAN = re.compile(r"(`+)(?!`)(.*?)(?<!`)\1(?!`)", re.S)
LINKED = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\](?:\([^)]*\)|\[[^\]]*\])")
TARGET = re.compile(r"(?<!\\)\]\(<?([^)\s>]*)>?[^)]*\)|^\s*\[[^\]]+\]:\s+(\S+)", re.M)
NAMED = re.compile(r"""<[a-zA-Z][^>]*\s(?:id|name)=["']([^"']+)["']""")
HREF = re.compile(r"""<[a-zA-Z][^>]*\s(?:href|src)=["']([^"']+)["']""")
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
DATED = re.compile(rf"\b20\d\d-[01]\d-[0-3]\d\b|\b[0-3]?\d\.? (?:{MONTHS})(?: 20\d\d)?\b|\b(?:{MONTHS}) [0-3]?\d(?:, 20\d\d)?\b|\bcommits?\s+[0-9a-f]{{7,40}}\b")
SHORT = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|etc|cf|vs|Fig|fig|No|resp|approx|al)\.$")
END = re.compile(r"[.!?]+[\"'”’)\]*_]*(?=\s+[\"'“‘(\[*_]*[A-Z0-9`\x00À-ÖØ-Þ])")
CODE = "\x00"  # stands for code, as one word


def outside_code(text):
    """(number, line) of the lines that are in no fenced block and no comment."""
    text = COMMENT.sub(lambda m: "\n" * m[0].count("\n"), text)
    fence = None
    for number, line in enumerate(text.split("\n"), 1):
        if m := FENCE.match(line):
            if fence is None:
                fence = m[2]
                continue
            if m[2].startswith(fence):
                fence = None
                continue
        if fence is None:
            yield number, line


def paragraphs(text):
    """(line it begins at, text) of each paragraph, list item and quotation."""
    begin, held = 0, []

    def done():
        nonlocal held
        if held:
            yield begin, " ".join(held)
        held = []

    before, code, item = "", False, False
    for number, line in outside_code(text):
        bare = QUOTE.sub("", line).strip()
        code = line.startswith("    ") and not item and (code or not before.strip()) and not held  # by its indent
        item = bool(ITEM.match(line)) or item and (not bare or line.startswith("  "))
        ends = not bare or HEADING.match(line) or bare.startswith("|") or re.fullmatch(r"[-*_= ]{3,}", bare) or bare.startswith("!!!")
        if ends or ITEM.match(QUOTE.sub("", line)):
            yield from done()
        if not ends and not code and not re.match(r"\[[^\]]+\]:\s", bare):
            if not held:
                begin = number
            held.append(ITEM.sub("", QUOTE.sub("", line)).strip())
        before = line
    yield from done()


def plain(text):
    """A paragraph without marks: code is one word, a link its text, HTML nothing."""
    text = SPAN.sub(CODE, text)
    for _ in range(2):  # an image inside a link
        text = LINKED.sub(lambda m: "" if m[0].startswith("!") else m[1], text)
    return re.sub(r"\*\*|__|(?<![\w*])\*|\*(?![\w*])", "", TAG.sub("", text))


def words(sentence):
    """How many words a sentence has: what has a letter, a digit or code in it."""
    return sum(1 for word in sentence.split() if re.search(r"[^\W_]|\x00", word))


def split(text):
    """The sentences of a plain paragraph."""
    found, begin = [], 0
    for m in END.finditer(text):
        if not SHORT.search(text[begin : m.start() + 1]):
            found.append(text[begin : m.end()])
            begin = m.end()
    return [s.strip() for s in [*found, text[begin:]] if words(s)]


def sentences(text):
    """(line of its paragraph, words, sentence) of each sentence of a page."""
    for line, paragraph in paragraphs(text):
        for sentence in split(plain(paragraph)):
            yield line, words(sentence), sentence.replace(CODE, "`…`")


# ------------------------------------------------------------------ links --


def slug(heading):
    """The anchor of a heading, as GitHub and the site make it."""
    text = SPAN.sub(lambda m: m[2], heading)
    text = LINKED.sub(lambda m: m[1], text)
    text = re.sub(r"\*\*|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)", "", TAG.sub("", text))
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


@functools.cache
def anchors(page):
    """Anchors of a page: its headings, the first of each name, and explicit ids."""
    text = page.read_text()
    found = {slug(m[2]) for _, line in outside_code(text) if (m := HEADING.match(line))}
    return found | set(NAMED.findall(text))


def links(text):
    """(line, target) of each link of a page."""
    clean = "\n".join(kept.get(n, "") for kept in [dict(outside_code(text))] for n in range(1, text.count("\n") + 2))
    clean = SPAN.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), clean)
    for m in [*TARGET.finditer(clean), *HREF.finditer(clean)]:
        yield clean[: m.start()].count("\n") + 1, next(filter(None, m.groups()), "")


def broken(page):
    """(line, what is wrong) of the links of a page that lead to no file or to no anchor of it."""
    for line, target in links(page.read_text()):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        to = (page.parent / path).resolve() if path else page
        if not to.exists():
            yield line, f"a link to {path}, which is not there"
        elif anchor and to.suffix == ".md" and anchor not in anchors(to):
            yield line, f"a link to {target}, which has no such heading"


# ---------------------------------------------------------------- figures --


def name(page):
    return str(page.relative_to(ROOT))


def judged():
    """Pages whose sentences count."""
    return [p for p in every() if not name(p).startswith(APART) and name(p) not in GENERATED]


def dated(text):
    """(line, what) of the days and commits that a page names: when something was measured is told in docs/lab."""
    for number, line in outside_code(text):
        if m := DATED.search(plain(line)):
            yield number, m[0]


def counts(page):
    """{over: sentences over 40 words, words, sentences} of a page."""
    lengths = [n for _, n, _ in sentences(page.read_text())]
    return {"over": sum(n > MOST for n in lengths), "words": sum(lengths), "sentences": len(lengths)}


def mean(count):
    """Words a sentence, to two digits."""
    return round(count["words"] / max(1, count["sentences"]), 2)


def owing(found):
    """{page: {over, mean}} of those that are too long."""
    return {page: {"over": c["over"], "mean": mean(c)} for page, c in found.items() if c["over"] or mean(c) > MEAN}


def worse(found, listed):
    """What is wrong of {page: counts}, given the list of pages that may still be too long."""
    now, bad = owing(found), []
    for page, has in now.items():
        may = listed.get(page, {"over": 0, "mean": MEAN})
        if has["over"] > may["over"]:
            bad.append(f"{page}: {has['over']} sentences of more than {MOST} words, {may['over']} allowed: hack/verify/prose.py long {page}")
        if has["mean"] > max(MEAN, may["mean"]):
            bad.append(f"{page}: {has['mean']} words a sentence, {max(MEAN, may['mean'])} allowed")
    bad += [f"{page}: is mended; take it out of {OWING.relative_to(ROOT)}" for page in listed if page not in now]
    return bad


def figures():
    """The docs_* figures of the tree."""
    found = [counts(p) for p in judged()]
    total = {key: sum(c[key] for c in found) for key in ("over", "words", "sentences")}
    return {"docs_sentence_words_mean": mean(total), "docs_sentences_over_40": total["over"],
            "docs_broken_links": sum(1 for p in with_links() for _ in broken(p))}


def check():
    bad = [f"{name(p)}:{line}: {what}" for p in with_links() for line, what in broken(p)]
    bad += [f"{name(p)}:{line}: {what}: how and when something was measured goes to docs/lab" for p in judged() for line, what in dated(p.read_text())]
    listed = json.loads(OWING.read_text()) if OWING.exists() else {}
    bad += worse({name(p): counts(p) for p in judged()}, listed)
    print("\n".join(bad) if bad else f"docs: every link leads to a heading; {len(listed)} pages are still too long; {figures()}")
    return 1 if bad else 0


def main(argv):
    if argv == ["check"]:
        return check()
    if len(argv) == 2 and argv[0] == "measure":
        pathlib.Path(argv[1]).write_text(json.dumps([{"name": k, "value": v} for k, v in figures().items()], indent=1) + "\n")
        return 0
    if argv[:1] == ["long"]:
        for page in [ROOT / p for p in argv[1:]] or judged():
            for line, n, sentence in sentences(page.read_text()):
                if n > MOST:
                    print(f"{page.relative_to(ROOT)}:{line}: {n} words: {sentence}")
        return 0
    if argv == ["means"]:
        for page in sorted(judged(), key=lambda p: -counts(p)["words"]):
            c = counts(page)
            print(f"{mean(c):6.2f} mean {c['over']:4} over {c['sentences']:5} sentences {c['words']:6} words  {name(page)}")
        print(figures())
        return 0
    if argv == ["owing"]:
        print(json.dumps(owing({name(p): counts(p) for p in judged()}), indent=1, sort_keys=True))
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
