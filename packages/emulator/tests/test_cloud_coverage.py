import re

import pytest
from cloud_openapi import NEWER, ROOT, description

from hetzner_emulator import coverage
from hetzner_emulator.api.registry import OPERATIONS
from hetzner_emulator.http.router import Router
from hetzner_emulator.resources import discover
from hetzner_emulator.state.records import RECORDS


def test_the_page_is_up_to_date():
    written = (ROOT / coverage.DEFAULT).read_text()
    assert written == coverage.table(), "run: python -m hetzner_emulator.coverage"


def test_every_listed_operation_is_registered():
    """Hetzner's document isn't part of the repository, but the page lists the emulated operations."""
    discover()
    firsts = [record.FIRST_ID for record in RECORDS.values()]
    assert len(set(firsts)) == len(firsts), "IDs of different kinds overlap"
    router = Router(OPERATIONS.values())
    page = (ROOT / coverage.DEFAULT).read_text()
    emulated = page.partition("\n## Not emulated\n")[0]
    listed = re.findall(r"^\| `([A-Z]+) (/\S+)` \|", emulated, re.MULTILINE)
    assert f"\n{len(set(listed))} operations are emulated.\n" in page
    for method, path in listed:
        match = router.match(re.sub(r"{\w+}", "1", f"{path}/"))
        assert match is not None, path
        assert (operation := match.operations.get(method)) is not None, (method, path)
        assert (operation.path, coverage.refusal(operation.name)) == (path, "")


def test_every_official_operation_is_emulated_or_refused_with_a_reason():
    known = description()
    if known is None:
        pytest.skip("Hetzner's openapi.json is not at hand; set CCMFS_OPENAPI")
    discover()
    official = known.operations()
    missing = {f"{m} {path}" for m, path in official if (m, path) not in OPERATIONS}
    assert {name for name in missing if not coverage.refusal(name)} == set()
    ours = {(o.method, o.path) for o in coverage.emulated(OPERATIONS.values())}
    assert ours - official == NEWER
