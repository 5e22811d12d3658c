from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from infra_settings import read_settings

from infra.api import Cloud, check_token, cloud_of, everything, fetcher
from infra.catalogue import Catalogue, catalogue_problems, read_catalogue
from infra.errors import CloudError, ConfigurationError
from infra.preflight import check_everything

TOKEN = "t" * 64

CATALOGUE = Catalogue(
    zones={"fsn1": "eu-central", "nbg1": "eu-central", "ash": "us-east"},
    server_types={
        "cpx22": {"fsn1": True, "nbg1": True},
        "cx23": {"fsn1": False, "nbg1": True},
        "cax11": {"fsn1": True},
    },
    images={"x86": frozenset({"ubuntu-24.04", "debian-12", "alma-9"}), "arm": frozenset({"ubuntu-24.04"})},
    arm=frozenset({"cax11"}),
)


def problems(defaults, **changes):
    configuration = {**defaults, **{f"ccm-from-scratch:{key}": value for key, value in changes.items()}}
    return [str(problem) for problem in catalogue_problems(read_settings(configuration), CATALOGUE)]


def test_what_the_cloud_has(defaults):
    assert problems(defaults) == []


def test_unknown_location_names_the_nearest(defaults):
    (problem,) = problems(defaults, location="fsn2")
    assert problem.startswith("ccm-from-scratch:location: 'fsn2'")
    assert "did you mean fsn1?" in problem


def test_location_in_another_zone(defaults):
    found = problems(defaults, location="ash")
    assert "ash is in the zone us-east" in found[0]
    assert "has no room" in found[1]


def test_unknown_server_type(defaults):
    (problem,) = problems(defaults, workerServerType="cpx222")
    assert problem.startswith("ccm-from-scratch:workerServerType: 'cpx222'")
    assert "did you mean cpx22?" in problem


def test_a_type_without_room_says_where_there_is_some(defaults):
    (problem,) = problems(defaults, controlServerType="cx23")
    assert "fsn1 has no room for it now" in problem
    assert "can be had in nbg1" in problem
    assert "fsn1 has cax11, cpx22" in problem


def test_servers_with_arm_processors_are_as_good_as_others(defaults):
    assert problems(defaults, controlServerType="cax11", image="ubuntu-24.04") == []
    assert problems(defaults, workerServerType="cax11", workerCount="1", image="ubuntu-24.04") == []


def test_the_servers_image_is_there_for_every_processor_that_is_wanted(defaults):
    assert problems(defaults, image="alma-9", workerCount="0") == []
    (problem,) = problems(defaults, image="alma-9", workerServerType="cax11", workerCount="1")
    assert problem.startswith("ccm-from-scratch:image: 'alma-9'")
    assert problem.endswith("there are ubuntu-24.04")


def test_the_workers_type_does_not_matter_without_workers(defaults):
    assert problems(defaults, workerServerType="nonsense", workerCount="0") == []


def test_unknown_image_but_any_snapshot(defaults):
    assert "did you mean ubuntu-24.04?" in problems(defaults, image="ubuntu-24")[0]
    assert problems(defaults, image="4711") == []


@pytest.mark.parametrize("token", [None, ""])
def test_no_token_says_where_to_put_it(token):
    with pytest.raises(ConfigurationError, match="pulumi config set --secret hcloud:token"):
        check_token(token)


@pytest.mark.parametrize("token", ["secret", "s" * 63 + "-", "s" * 65])
def test_a_text_that_is_no_token_is_not_shown(token):
    with pytest.raises(ConfigurationError) as caught:
        check_token(token)
    assert token not in str(caught.value)
    assert f"{len(token)} characters" in str(caught.value)


def test_the_stack_beats_the_environment():
    environment = {"HCLOUD_TOKEN": TOKEN, "HCLOUD_ENDPOINT": "http://127.0.0.1:1/v1"}
    assert cloud_of({}, environment).endpoint == "http://127.0.0.1:1/v1"
    assert cloud_of({"hcloud:endpoint": "https://other/v1/"}, environment).endpoint == "https://other/v1"
    assert cloud_of({"hcloud:token": "u" * 64}, environment).token == "u" * 64
    assert TOKEN not in repr(cloud_of({}, environment))


@pytest.fixture
def api():
    """An API with two pages of everything that knows one token."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                return self._answer(401, {"error": {"code": "unauthorized"}})
            if self.path.startswith("/v1/broken"):
                return self._answer(500, {})
            resource, page = self.path.split("/")[2].split("?")[0], "page=2" in self.path
            item = {"id": 1 + page, "name": f"{resource}-{1 + page}", "network_zone": "eu-central"}
            item["architecture"] = "x86" if page else "arm"
            item["locations"] = [{"name": "locations-1", "available": page}]
            paging = {"pagination": {"next_page": None if page else 2}}
            return self._answer(200, {resource: [item], "meta": paging})

        def _answer(self, status, content):
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def test_all_pages_are_read(api):
    catalogue = read_catalogue(fetcher(Cloud(api, TOKEN)))
    assert set(catalogue.zones) == {"locations-1", "locations-2"}
    assert catalogue.server_types["server_types-2"] == {"locations-1": True}
    assert catalogue.server_types["server_types-1"] == {"locations-1": False}
    assert catalogue.images == {"arm": {"images-1"}, "x86": {"images-2"}}
    assert catalogue.arm == {"server_types-1"}


def test_a_refused_token_is_a_problem_of_the_configuration(api):
    with pytest.raises(ConfigurationError, match=r"hcloud:token.*does not accept this token") as caught:
        everything(fetcher(Cloud(api, "w" * 64)), "locations", "")
    assert "wwww" not in str(caught.value)


def test_a_broken_api_says_what_was_asked(api):
    with pytest.raises(CloudError, match=r"answered GET /broken\?per_page=50&page=1 with 500") as caught:
        everything(fetcher(Cloud(api, TOKEN)), "broken", "")
    assert caught.value.status == 500


def test_an_absent_api_says_so():
    with pytest.raises(CloudError, match=r"127\.0\.0\.1:1/v1 could not be asked: .*refused"):
        everything(fetcher(Cloud("http://127.0.0.1:1/v1", TOKEN)), "locations", "")


def test_only_http_is_asked():
    with pytest.raises(CloudError, match="begins with https"):
        fetcher(Cloud("file:///etc", TOKEN))("/passwd")


def test_settings_and_what_the_cloud_has_are_checked_together(api, defaults):
    environment = {"HCLOUD_ENDPOINT": api, "HCLOUD_TOKEN": TOKEN}
    configuration = {**defaults, "ccm-from-scratch:workerCuont": "1", "ccm-from-scratch:location": "a b"}
    with pytest.raises(ConfigurationError) as caught:
        check_everything(configuration, environment)
    keys = [problem.key.partition(":")[2] for problem in caught.value.problems]
    assert keys == ["location", "workerCuont", "controlServerType", "workerServerType", "image"]


def test_settings_are_told_although_the_cloud_does_not_answer(defaults):
    environment = {"HCLOUD_ENDPOINT": "http://127.0.0.1:1/v1", "HCLOUD_TOKEN": TOKEN}
    with pytest.raises(CloudError):
        check_everything(defaults, environment)
    with pytest.raises(ConfigurationError, match="sshAllowedCidrs: is not set: say who"):
        check_everything({**defaults, "ccm-from-scratch:sshAllowedCidrs": "[]"}, environment)


def test_what_is_good_is_returned(api, defaults):
    configuration = {**defaults, "hcloud:endpoint": api, "hcloud:token": TOKEN}
    changes = {"location": "locations-1", "image": "images-2", "workerServerType": "server_types-2"}
    changes["controlServerType"] = "server_types-2"
    configuration |= {f"ccm-from-scratch:{key}": value for key, value in changes.items()}
    settings, cloud = check_everything(configuration, {})
    assert (settings.location, cloud.endpoint) == ("locations-1", api)
