"""What the tree's pages are on the site: which there are, where each is, and where its links lead.

In the tree, pages link to pages and to source files. On the site, a link to a page leads to the site's copy,
and a link to a source file leads to a page that shows the file.
"""

import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

FIRST = "docs/README.md"
SECTIONS = ("tutorial", "guides", "reference", "design")
"""Folders of ``docs``, in the order of the navigation."""

_LINK = re.compile(r"(?<=\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
_FENCE = re.compile(r"(^ *```.*?^ *```[^\n]*$)", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^# (.+)$", re.MULTILINE)
_LANGUAGES = {".py": "python", ".go": "go", ".yaml": "yaml", ".json": "json", ".toml": "toml", ".sh": "sh"}


@dataclass(frozen=True)
class Page:
    """One page of the site."""

    place: str  # its path on the site
    title: str  # its first heading
    text: str  # markdown, with links that hold on the site


@dataclass(frozen=True)
class Pages:
    """All of the site."""

    pages: dict[str, Page]  # by their path in the tree
    pictures: dict[str, str]  # paths in the tree, by their path on the site
    broken: tuple[str, ...]  # links that lead nowhere, as ``PAGE: TARGET``


def gather(read: Callable[[str], str | None]) -> Pages:
    """All pages that can be reached from the first one."""
    pages: dict[str, Page] = {}
    pictures: dict[str, str] = {}
    broken: list[str] = []
    waiting = [(FIRST, FIRST)]
    while waiting:
        linked_from, name = waiting.pop()
        if name in pages or place(name) in pictures:
            continue
        text = read(name)
        if text is None:
            broken.append(f"{linked_from}: {name}")
        elif is_picture(name):
            pictures[place(name)] = name
        elif name.endswith(".md"):
            heading = _HEADING.search(text)
            pages[name] = Page(place(name), heading[1] if heading else name, _rewritten(name, text))
            waiting += [(name, target) for target in targets(name, text)]
        else:
            pages[name] = Page(place(name), name, _shown(name, text))
    return Pages(pages, pictures, tuple(broken))


def place(name: str) -> str:
    """Where a file of the tree is on the site."""
    if name == "README.md":
        return "project.md"
    path = PurePosixPath(name)
    inside = path.relative_to("docs") if path.is_relative_to("docs") else path
    if path.suffix == ".md":
        return str(inside.with_name("index.md") if inside.name == "README.md" else inside)
    return str(inside) if is_picture(name) else f"source/{inside}.md"


def is_picture(name: str) -> bool:
    """Whether a file is shown in a page rather than read."""
    return PurePosixPath(name).suffix in {".svg", ".png"}


def targets(name: str, text: str) -> Iterator[str]:
    """Paths in the tree that a page's links lead to; links to elsewhere are left out."""
    for link in _LINK.finditer(_FENCE.sub("", text)):
        if "://" not in link[1]:
            yield _resolved(name, link[1])


def navigation(pages: Pages) -> list[tuple[str, list[tuple[str, str]]]]:
    """The sections of the site, each with the titles and places of its pages."""
    entries = sorted((page.place, page.title) for name, page in pages.pages.items() if name.endswith(".md"))
    first = [(title, where) for where, title in entries if "/" not in where]
    first.sort(key=lambda entry: entry[1] != "index.md")
    sections = [("Start", first)]
    for section in SECTIONS:
        inside = [(title, where) for where, title in entries if where.startswith(f"{section}/")]
        inside.sort(key=lambda entry: not entry[1].endswith("/index.md"))
        sections.append((section.capitalize(), inside))
    return sections


def _resolved(name: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), link))


def _rewritten(name: str, text: str) -> str:
    folder = posixpath.dirname(place(name))

    def link(found: re.Match[str]) -> str:
        if "://" in found[1]:
            return found[0]
        return posixpath.relpath(place(_resolved(name, found[1])), folder or ".") + found[2]

    parts = _FENCE.split(text)
    # Between them are the fenced blocks. Python's Markdown reads what is inside an HTML element only where
    # that says so.
    parts[::2] = [_LINK.sub(link, part).replace("<details>", '<details markdown="1">') for part in parts[::2]]
    return "".join(parts)


def _shown(name: str, text: str) -> str:
    language = _LANGUAGES.get(PurePosixPath(name).suffix, "text")
    return f"# `{name}`\n\n`````{language}\n{text}\n`````\n"
