import runpy
import tomllib
from pathlib import Path

import pytest
import yaml

from ccm.version import VERSION
from image.errors import VersionError
from image.source import project_version, read_source

TREE = Path(__file__).parents[3]
CHART = TREE / "charts" / "ccm-from-scratch" / "Chart.yaml"


def test_the_image_has_it() -> None:
    source = read_source()
    assert project_version(TREE) == source.project.version == VERSION
    assert source.labels()["org.opencontainers.image.version"] == VERSION
    assert [path for path in source.application if path.endswith("/METADATA")] == [
        f"ccm_from_scratch-{VERSION}.dist-info/METADATA"
    ]


def test_the_emulator_and_the_chart_have_it_and_the_chart_asks_for_the_image_of_it() -> None:
    with (TREE / "packages/emulator/pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["version"] == VERSION
    text = CHART.read_text(encoding="utf-8")
    made = runpy.run_path(str(TREE / "charts" / "render.py"))
    assert made["with_version"](text) == text, "run: python charts/render.py"
    chart = yaml.safe_load(text)
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


def test_a_file_without_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "ccm").mkdir()
    (tmp_path / "ccm" / "version.py").write_text("VERSION = 1\n")
    with pytest.raises(VersionError, match=r"ccm/version\.py doesn't contain a line VERSION"):
        project_version(tmp_path)
