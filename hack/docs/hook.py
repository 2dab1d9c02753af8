# SPDX-License-Identifier: Apache-2.0
"""What the site adds to the Markdown files, which are written for a reader of the tree.

The README is the first page. A link from a page to a file outside docs/ leads to a copy of that file under tree/, and
one to a folder to a list of its files. Folders come in the order of a reader's day, not of the alphabet.
"""
import pathlib
import re
import sys

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "hack/verify"))
import prose  # noqa: E402

SECTIONS = {"start": "Start", "guides": "Guides", "reference": "Reference", "concepts": "Concepts",
            "runbooks": "Runbooks", "lab": "Lab", "decisions": "Decisions"}
FIRST = {"start": ["your-own-service.md", "your-own-service-in-c.md", "crab-for-redis.md", "load-it-bears.md", "when-it-is-slow.md"],
         "guides": ["operations.md", "performance.md", "crab.md"]}
MARK = re.compile(r"(\]\(<?)([^)\s>]+)")  # the target of a link, with what stands before it
FENCED = re.compile(r"(^[ ]*```.*?^[ ]*```[ ]*$|`[^`\n]+`)", re.M | re.S)
FIELD = re.compile(r"^\| `([\w.\[\]-]+)`", re.M)  # a row of the API's tables: a long name may break behind a dot
TAGGED = re.compile(r"^```(\w+) (?:.*\bfile=(\S+))?.*$", re.M)  # ```sh ci: the tag is the tests', a file's name its title


def title(page):
    """The first heading of a page."""
    return next((m[2] for _, line in prose.outside_code(page.read_text()) if (m := prose.HEADING.match(line))), page.stem).replace("`", "")


def menu(docs):
    """Sections in the order of SECTIONS and then of their names, pages in that of FIRST and then of their names."""
    nav = [{"Overview": "index.md"}]
    others = sorted({p.parent.name for p in docs.glob("*/*.md")} - set(SECTIONS))
    for folder, heading in [*SECTIONS.items(), *((name, name.capitalize()) for name in others)]:
        pages = sorted((docs / folder).glob("*.md"), key=lambda p: ((FIRST.get(folder, []) + [p.name]).index(p.name), p.name))
        nav.append({heading: [{title(p): f"{folder}/{p.name}"} for p in pages]})
    return nav


def outside(page):
    """Paths of the tree, outside docs/, that a page links to."""
    for _, target in prose.links(page.read_text()):
        path = target.partition("#")[0]
        to = (page.parent / path).resolve() if path and "://" not in path else None
        if to and to.exists() and ROOT in to.parents and not to.is_relative_to(ROOT / "docs") and to.name != "README.md":
            yield to


def copy_of(to):
    """Where the site has what stands outside docs/: a file as text (one that ends in .go would be a package of the module), a folder as a page that lists it."""
    at = to.relative_to(ROOT)
    return f"tree/{at}/index.md" if to.is_dir() else f"tree/{at}" + ("" if to.suffix in (".svg", ".png") else ".txt")


def listing(folder):
    rows = [f"- `{p.name}{'/' if p.is_dir() else ''}`" for p in sorted(folder.iterdir()) if not p.name.startswith(".")]
    return f"# {folder.relative_to(ROOT)}\n\n" + "\n".join(rows) + "\n"


def on_files(files, config):
    docs = ROOT / "docs"
    files.append(File.generated(config, "index.md", content=(ROOT / "README.md").read_text()))
    for at in ("clients/go/r2p2/README.md", "examples/README.md"):
        files.append(File.generated(config, f"tree/{at}", content=(ROOT / at).read_text()))
    done = set()
    for page in prose.every() + [ROOT / "examples/README.md", ROOT / "clients/go/r2p2/README.md"]:
        for to in outside(page):
            if to not in done:
                done.add(to)
                files.append(File.generated(config, copy_of(to), content=listing(to) if to.is_dir() else to.read_bytes()))
    for file in files:
        if file.src_uri.startswith("tree/"):
            file.inclusion = file.inclusion.NOT_IN_NAV
    files.append(File.generated(config, "assets/site.css", content=(ROOT / "hack/docs/site.css").read_text()))
    config.nav = menu(docs)
    return files


def source_of(page):
    """The file of the tree that a page of the site is made of."""
    if page.file.src_uri == "index.md":
        return ROOT / "README.md"
    return ROOT / page.file.src_uri.removeprefix("tree/") if page.file.src_uri.startswith("tree/") else ROOT / "docs" / page.file.src_uri


def relative(to, page):
    """A place of the site, from a page of it."""
    up = page.file.src_uri.count("/")
    return "../" * up + to


def on_page_markdown(markdown, page, **_):
    source = source_of(page)

    def turned(m):
        path, mark, anchor = m[2].partition("#")
        to = (source.parent / path).resolve() if path and "://" not in path and not path.startswith("mailto:") else None
        if to is None or not to.exists():
            return m[0]
        if to.is_relative_to(ROOT / "docs"):
            at = str(to.relative_to(ROOT / "docs"))
            if to.is_dir():  # a folder of pages: its first one
                at = f"{at}/{sorted(p.name for p in to.glob('*.md'))[0]}"
        else:
            at = {"README.md": "index.md"}.get(str(to.relative_to(ROOT)), f"tree/{to.relative_to(ROOT)}" if to.name == "README.md" else copy_of(to))
        return m[1] + relative(at, page) + mark + anchor

    if page.file.src_uri == "reference/api.md":
        markdown = FIELD.sub(lambda m: "| <code>" + m[1].replace(".", ".<wbr>") + "</code>", markdown)
    parts = FENCED.split(markdown)
    text = "".join(part if i % 2 else MARK.sub(turned, part) for i, part in enumerate(parts))
    return TAGGED.sub(lambda m: f"```{m[1]}" + (f' title="{m[2]}"' if m[2] else ""), text)
