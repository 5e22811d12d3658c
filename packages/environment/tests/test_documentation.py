import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from sandbox.commands.docs import check_output
from sandbox.documentation.build import build, generator, settings
from sandbox.documentation.pages import gather, navigation, place
from sandbox.errors import SandboxError
from sandbox.site import open_clone

ROOT = Path(__file__).parents[3]
TREE = {
    "docs/README.md": "# First\n[a](guides/a.md#part) ![p](pictures/p.png) [out](https://example.com/x)",
    "docs/guides/a.md": "# A\n## Part\n"
    "[main](../../code/main.go), [first](../README.md), [p](../../README.md)\n"
    "```sh\n[not](a-link.md)\n```\n<details>\n",
    "docs/tutorial/README.md": "# Not linked",
    "docs/pictures/p.png": "",
    "README.md": "# Project",
    "code/main.go": "package main\n",
}


def test_links_on_the_site():
    pages = gather(TREE.get)
    assert pages.broken == ()
    assert {name: page.place for name, page in pages.pages.items()} == {
        "docs/README.md": "index.md",
        "README.md": "project.md",
        "docs/guides/a.md": "guides/a.md",
        "code/main.go": "source/code/main.go.md",
    }
    assert pages.pictures == {"pictures/p.png": "docs/pictures/p.png"}
    first, guide = pages.pages["docs/README.md"].text, pages.pages["docs/guides/a.md"].text
    assert "[a](guides/a.md#part) ![p](pictures/p.png) [out](https://example.com/x)" in first
    assert "[main](../source/code/main.go.md), [first](../index.md), [p](../project.md)" in guide
    assert "[not](a-link.md)" in guide
    assert '<details markdown="1">' in guide
    assert "package main" in pages.pages["code/main.go"].text
    assert gather({"docs/README.md": "[x](no.md)"}.get).broken == ("docs/README.md: docs/no.md",)


def test_navigation():
    pages = gather(TREE.get)
    assert navigation(pages)[:3] == [
        ("Start", [("First", "index.md"), ("Project", "project.md")]),
        ("Tutorial", []),
        ("Guides", [("A", "guides/a.md")]),
    ]
    assert tomllib.loads(settings(pages))["project"]["nav"][2] == {"Guides": [{"A": "guides/a.md"}]}


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        self.ids.add(found.get("id", ""))
        if tag == "a":
            self.links.add(found.get("href", ""))
        elif tag != "link" or found.get("rel") not in {"canonical", "next", "prev"}:
            self.loads |= {found.get("src", ""), found.get("href", "")}


@pytest.mark.slow
def test_the_site_is_complete_and_uses_no_other_host(tmp_path):
    clone = open_clone(ROOT, {"HOME": str(Path.home())})
    output = tmp_path / "site"
    number = build(ROOT, generator(ROOT, clone.cache, print), output, print)
    pages = {path: _Page(path.read_text()) for path in output.rglob("*.html") if path.name != "404.html"}
    assert len(pages) == number
    assert (output / "search.json").is_file()
    check_output(output)  # it can be built again
    for path, page in pages.items():
        assert not [address for address in page.loads if "://" in address or address.startswith("//")], path
        for link in page.links:
            target, _, part = link.partition("#")
            if "://" in target or target.startswith("mailto:"):
                continue
            file = (path.parent / unquote(target)).resolve() if target else path
            assert file in pages or file.is_file() or file == output, f"{path}: {link}"
            assert not part or file not in pages or unquote(part) in pages[file].ids, f"{path}: {link}"
    styles = "".join(path.read_text() for path in output.rglob("*.css"))
    assert not re.search(r"url\(\s*['\"]?https?:", styles)


@pytest.mark.slow
def test_a_broken_link_stops_the_build_and_keeps_the_site_that_is_there(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/README.md").write_text("# First\n[x](no.md)")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("older")
    with pytest.raises(SandboxError, match=r"docs/README\.md: docs/no\.md"):
        build(tmp_path, Path("/nowhere"), tmp_path / "site", print)
    assert (tmp_path / "site" / "index.html").read_text() == "older"


def test_other_folders_are_not_replaced(tmp_path):
    check_output(tmp_path / "new")
    check_output(tmp_path)
    (tmp_path / "search.json").write_text("of the site of another generator")
    for folder in (tmp_path, tmp_path / "search.json"):
        with pytest.raises(SandboxError, match="did not create it"):
            check_output(folder)


def test_every_page_is_linked():
    def read(name: str) -> str | None:
        path = ROOT / name
        return path.read_text(errors="replace") if path.is_file() else None

    assert {str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")} <= gather(read).pages.keys()
    assert place("docs/design/README.md") == "design/index.md"
