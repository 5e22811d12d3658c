import io
import json
import logging
import re

import pytest
import structlog

from ccm.manager.logs import Redactor, set_up_logs

TOKEN = "t0ps3cret" * 7


@pytest.fixture
def stream():
    """Where the log goes; afterwards everything is as it was."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level, structlog.get_config())
    yield io.StringIO()
    root.handlers[:], level = before[0], before[1]
    root.setLevel(level)
    structlog.configure(**before[2])


def _log():
    return structlog.stdlib.get_logger("ccm.test")


def test_text_is_like_klog(stream):
    set_up_logs(form="text", verbosity=0, stream=stream)
    _log().info("it_happened", node="a b", count=3)
    _log().warning("careful")
    _log().debug("not_shown")
    first, second = stream.getvalue().splitlines()
    assert re.fullmatch(r'I\d{4} \d\d:\d\d:\d\d\.\d{6} ccm\.test\] "it_happened" count=3 node="a b"', first)
    assert second.startswith("W")


def test_json(stream):
    set_up_logs(form="json", verbosity=4, stream=stream)
    _log().debug("it_happened", node="a", odd={1, 2})
    record = json.loads(stream.getvalue())
    assert (record["level"], record["logger"], record["msg"], record["node"]) == (
        "debug", "ccm.test", "it_happened", "a",
    )  # fmt: skip
    assert isinstance(record["ts"], float)


@pytest.mark.parametrize("form", ["text", "json"])
def test_of_a_long_text_the_log_has_both_ends_and_no_part_of_a_secret(stream, form):
    set_up_logs(form=form, verbosity=0, redactor=Redactor([TOKEN]), stream=stream)
    text = "beginning" + "x" * 4_080 + TOKEN + "y" * 1_000_000 + "the end"
    _log().info("refused", value=text, error=ValueError(text))
    logging.getLogger("other").warning("refused %s", text)
    try:
        raise ValueError(text)  # noqa: TRY301 - something has to fail
    except ValueError:
        _log().exception("failed")
    output = stream.getvalue()
    assert len(output) < 40_000
    assert (output.count("beginning"), output.count("the end")) == (4, 4)
    assert output.count("[… 1004104 characters …]") == 2
    assert TOKEN[:4] not in output


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_never_appear(stream, form):
    set_up_logs(form=form, verbosity=9, redactor=Redactor([TOKEN]), stream=stream)
    _log().info("call", url=f"http://x?token={TOKEN}", error=ValueError(TOKEN), headers={"a": TOKEN})
    _log().info(f"direct {TOKEN}")
    logging.getLogger("other").warning("header %s", f"Authorization: Bearer abcdef{TOKEN[:5]}")
    try:
        raise ValueError(TOKEN)  # noqa: TRY301 - something has to fail
    except ValueError:
        _log().exception("failed")
    text = stream.getvalue()
    assert TOKEN not in text
    assert "abcdef" not in text
    assert text.count("[secret]") >= 6
    assert "ValueError" in text


def test_other_libraries_log_in_the_same_form(stream):
    set_up_logs(form="json", verbosity=0, stream=stream)
    logging.getLogger("other").error("old %s", "style")
    assert json.loads(stream.getvalue())["msg"] == "old style"


def test_which_variables_are_secret(tmp_path):
    (tmp_path / "token").write_text("third-secret\n")
    environment = {
        "HCLOUD_TOKEN": "first-secret", "ROBOT_PASSWORD": "second-secret", "HOME": "/root-of-all",
        "HCLOUD_TOKEN_FILE": str(tmp_path / "token"), "ROBOT_PASSWORD_FILE": "/no/such/file",
    }  # fmt: skip
    redactor = Redactor.of(environment)
    cleaned = redactor.clean("first-secret second-secret third-secret /root-of-all /no/such/file")
    assert cleaned == "[secret] [secret] [secret] /root-of-all /no/such/file"


def test_a_secret_that_is_rotated_stays_one_and_so_does_its_predecessor(tmp_path, stream):
    """As the kubelet renews it: another file behind the same link."""
    link = tmp_path / "token"
    (tmp_path / "first").write_text("the-first-token")
    link.symlink_to("first")
    set_up_logs(
        form="text", verbosity=0, redactor=Redactor.of({"HCLOUD_TOKEN_FILE": str(link)}), stream=stream
    )
    (tmp_path / "second").write_text("the-second-token")
    (tmp_path / "new").symlink_to("second")
    (tmp_path / "new").rename(link)
    _log().info("answer", said="the-second-token follows the-first-token")
    link.unlink()
    _log().info("answer", said="the-second-token")
    assert "the-" not in stream.getvalue()
    assert stream.getvalue().count("[secret]") == 3


def test_short_texts_are_not_masked():
    assert Redactor(["on"]).clean("turn it on") == "turn it on"
