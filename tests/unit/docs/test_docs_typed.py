import re

import pytest

from tests.e2e import test_documents, test_documents_of_clusters, test_documents_of_networks
from tests.e2e.conftest import TREE
from tests.e2e.documents import blocks_in, not_printed, typed_in
from tests.e2e.reader import GOES_ON, NOT_RUN, SAYS, UNTIL, why_not

READERS = (test_documents, test_documents_of_clusters, test_documents_of_networks)
PAGES = [page for reader in READERS for page in reader.PAGES]
PROGRAMS = "curl|hcloud|k3s|kubectl|pulumi|rsync|ssh|[./]*python"
LINES = [line for page in PAGES for line in typed_in((TREE / page).read_text(encoding="utf-8"))]


def test_command_lines_are_found_with_their_comments() -> None:
    page = "x\n```sh\na \\\n  b   # why\n\nc '#d'\n```\n   ```sh\n   e\n   ```\n```\nno\n```\n"
    assert [(line.text, line.comment) for line in typed_in(page)] == [
        ("a    b", "why"),
        ("c '#d'", ""),
        ("e", ""),
    ]


ELSEWHERE = {
    "docs/guides/testing-with-the-emulator.md": "tests/packages, without a clone",
    "docs/guides/components.md": "tests/packages, without a clone",
}


def test_every_page_with_commands_is_run() -> None:
    folders = [TREE / "README.md", *TREE.glob("docs/tutorial/*.md"), *TREE.glob("docs/guides/*.md")]
    assert {str(page.relative_to(TREE)) for page in folders if typed_in(page.read_text())} == {
        *PAGES,
        *ELSEWHERE,
    }


def test_no_page_has_commands_outside_of_its_blocks() -> None:
    """Indented lines are shown literally, and readers don't type them."""
    for page in [TREE / name for name in PAGES]:
        text = page.read_text(encoding="utf-8")
        prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
        assert not re.findall(rf"^ {{4,}}(?:\./dev|{PROGRAMS}) [^;\n]*$", prose, re.MULTILINE), page


@pytest.mark.parametrize("text", [*NOT_RUN, *GOES_ON, *SAYS])
def test_no_exception_outlives_its_command(text: str) -> None:
    assert any(text in line.text for line in LINES)


def test_every_command_that_is_watched_says_until_when() -> None:
    watched = {line.comment for line in LINES if line.text.endswith(" -w")}
    assert watched == UNTIL.keys()


def test_most_commands_run() -> None:
    assert sum(not why_not(line) for line in LINES) > 0.7 * len(LINES)


def test_what_a_page_shows_belongs_to_the_commands_before_it() -> None:
    page = "```sh\na\nb\n```\nwords\n```text\n1\n2\n```\n```text\nno output\n```\n```sh\nc\n```\n"
    assert [(len(block.lines), block.shown) for block in blocks_in(page)] == [(2, ("1", "2")), (1, ())]


PRINTED = """NAME     TYPE           EXTERNAL-IP                     AGE
whoami   LoadBalancer   203.0.113.9,2001:db8:2::1,10.0.0.5   2m3s
pod/whoami-84c86f4d94-x2x4k   ccm-from-scratch://4000001
controller_off     controller=node time=2026-11-22T11:00:00Z
  Sandbox cloud: process 644
"""


@pytest.mark.parametrize(
    ("shown", "missing"),
    [
        (["whoami LoadBalancer 198.51.100.77,2001:db8::f,10.0.0.16 41s"], ""),
        (["NAME TYPE EXTERNAL-IP AGE", "…", "pod/whoami-6d9b5c7f88-abcde  ccm-from-scratch://4000023"], ""),
        (["whoami   LoadBalancer   …"], ""),
        (["controller_off controller=node time=2030-01-01T00:00:00Z"], ""),
        (
            ["controller_off controller=route time=2030-01-01T00:00:00Z"],
            "controller_off controller=route time=",
        ),
        (["  Sandbox cloud: process 13122"], ""),
        (["whoami   ClusterIP   …"], "whoami   ClusterIP   …"),
        (["pod/whoami-84c86f4d94-x2x4k   hcloud://4000001"], "pod/whoami"),
        (["whoami   LoadBalancer   …", "NAME TYPE EXTERNAL-IP AGE"], "NAME"),
        (["whoami"], "whoami"),
    ],
)
def test_what_varies_need_not_be_shown_as_it_was_printed(shown: list[str], missing: str) -> None:
    assert not_printed(shown, PRINTED).startswith(missing)
    assert bool(not_printed(shown, PRINTED)) == bool(missing)


def test_every_block_of_a_page_says_what_it_is() -> None:
    for page in [TREE / name for name in PAGES]:
        kinds = re.findall(r"^ *```(\S*).*\n(?:.*\n)*? *```$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert "" not in kinds, page
