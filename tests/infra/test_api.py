import json
from http.server import BaseHTTPRequestHandler

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm_pulumi.cluster.kubeconfig import wait_for_endpoint
from ccm_pulumi.lib.cloud_api import Cloud, Patience, call, everything, server_runs
from ccm_pulumi.lib.errors import CloudError, ConfigurationError
from ccm_pulumi.preflight.checks import check_everything
from tests.http_server import Json, serving

TOKEN = "t" * 64
NO_END = {"pagination": {"next_page": None}}


def answering(content: bytes):
    class Handler(Json, BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content)

    return serving(Handler)


def asked(content: bytes):
    with answering(content) as port:
        return call(Cloud(f"http://127.0.0.1:{port}/v1", TOKEN), "GET", "/servers")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_takes_the_token_elsewhere(status):
    asked_there = []

    class There(Json, BaseHTTPRequestHandler):
        def do_GET(self):
            asked_there.append(self.headers["Authorization"])
            self.answer(200, {})

    class Here(Json, BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Location", f"http://localhost:{there}/v1/servers")
            self.end_headers()

    with serving(There) as there, serving(Here) as here:
        with pytest.raises(CloudError, match=f"with the redirect {status}") as caught:
            call(Cloud(f"http://127.0.0.1:{here}/v1", TOKEN), "GET", "/servers")
        assert caught.value.status == status
        # an answer, whatever it is, is enough for that one
        wait_for_endpoint([f"http://127.0.0.1:{here}"], Patience(seconds=0))
    assert asked_there == []


@pytest.mark.parametrize("following", [1, 0, True, "2", [], 1001])
def test_pages_that_do_not_follow_each_other_are_an_error(following):
    answer = {"servers": [], "meta": {"pagination": {"next_page": following}}}
    with pytest.raises(CloudError, match="after page 1 comes"):
        everything(lambda _: answer, "servers", "")


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"servers": []},
        {"servers": None, "meta": NO_END},
        {"servers": "many", "meta": NO_END},
        {"servers": [1], "meta": NO_END},
        {"servers": [], "meta": {"pagination": None}},
    ],
)
def test_what_is_no_list_of_objects_is_an_error_of_the_cloud(answer):
    with pytest.raises(CloudError, match=r"answered GET /servers\?per_page=50&page=1 with a response"):
        everything(lambda _: answer, "servers", "")


@pytest.mark.parametrize("content", [b"{}", b'{"server": null}', b'{"server": [1]}'])
def test_a_server_whose_answer_can_not_be_read_is_an_error_of_the_cloud(content):
    with answering(content) as port, pytest.raises(CloudError, match="answered GET /servers/1 with"):
        server_runs(Cloud(f"http://127.0.0.1:{port}/v1", TOKEN), "1")


@pytest.mark.parametrize(
    "content", [b"[1]", b"null", b"[" * 100_000, b'{"a":' * 100_000, b"\xff", b"9" * 10_000, b"<html>"]
)
def test_an_answer_that_is_no_json_is_an_error_of_the_cloud(content):
    with pytest.raises(CloudError):
        asked(content)


def test_an_answer_without_end_is_not_read_to_it():
    with pytest.raises(CloudError, match="more than 16777216 bytes"):
        asked(b'{"a": "' + b"x" * 17_000_000)


def test_what_a_terminal_would_obey_is_shown_and_a_long_text_is_not():
    said = str(CloudError("https://a", "said \x1b[2J" + "x" * 5000))
    assert "said \\x1b[2J" in said
    assert len(said) < 2000


@given(
    st.recursive(
        st.none() | st.text(max_size=3) | st.integers(-1, 2),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(
                    ["servers", "locations", "name", "labels", "pricing", "images", "server_types", "prices"]
                ),
                inner,
                max_size=3,
            )
        ),
        max_leaves=8,
    )
)
def test_a_response_of_any_shape_is_decoded_or_reported(api, defaults, answer):
    api["answer"] = answer
    environment = {"HCLOUD_ENDPOINT": api["endpoint"], "HCLOUD_TOKEN": TOKEN}
    with pytest.raises((CloudError, ConfigurationError)):
        check_everything(defaults, "local", environment)


@pytest.fixture(scope="module")
def api():
    """Answers every list with what a test says, on one page."""
    said = {"answer": {}}

    class Handler(Json, BaseHTTPRequestHandler):
        def do_GET(self):
            resource = self.path.split("/")[2].split("?")[0]
            page = {resource: said["answer"], "meta": NO_END}
            self.answer(200, json.loads(json.dumps(page)))

    with serving(Handler) as port:
        said["endpoint"] = f"http://127.0.0.1:{port}/v1"
        yield said
