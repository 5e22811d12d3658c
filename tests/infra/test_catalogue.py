import json
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler

import pytest
from infra_settings import configured, read_settings

from ccm_pulumi.config.placement import Placement, Present
from ccm_pulumi.lib.cloud_api import Cloud, Patience, check_token, cloud_of, everything, fetcher
from ccm_pulumi.lib.errors import CloudError, ConfigurationError
from ccm_pulumi.preflight.capacity import needed_for, placed, type_problems
from ccm_pulumi.preflight.catalogue import Catalogue, catalogue_problems, read_catalogue
from ccm_pulumi.preflight.checks import check_everything
from ccm_pulumi.servers.snapshot_images import Snapshot
from tests.http_server import Json, serving

TOKEN = "t" * 64
NOW = datetime(2026, 11, 22, tzinfo=UTC)

CATALOGUE = Catalogue(
    zones={"fsn1": "eu-central", "nbg1": "eu-central", "ash": "us-east"},
    server_types={
        "cpx22": {"fsn1": True, "nbg1": True},
        "cx23": {"fsn1": False, "nbg1": True},
        "cax11": {"fsn1": True},
    },
    images={"x86": frozenset({"ubuntu-24.04", "debian-12", "alma-9"}), "arm": frozenset({"ubuntu-24.04"})},
    arm=frozenset({"cax11"}),
    disks={"cpx22": 80, "cx23": 40, "cax11": 40},
    snapshots={
        "4711": Snapshot("x86", "available", 40),
        "4712": Snapshot("x86", "available", 80),
        "4713": Snapshot("arm", "available", 20),
        "4714": Snapshot("x86", "creating", 20),
        "4715": Snapshot("x86", "available", 20, deleted=True),
    },
)


def problems(defaults, **changes):
    settings = read_settings(configured(defaults, **changes))
    _, found = placed(settings, CATALOGUE, {})
    return [str(problem) for problem in [*catalogue_problems(settings, CATALOGUE), *found]]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, []),
        ({"location": "fsn2"}, [["location: 'fsn2'", "did you mean fsn1?"]]),
        ({"location": "ash"}, [["ash is in the network zone"], ["has no capacity"], ["has no capacity"]]),
        ({"workerServerType": "cpx222"}, [["workerServerType: 'cpx222'", "did you mean cpx22?"]]),
        # no worker has it
        ({"workerServerType": "nonsense", "workerCount": "0"}, []),
        (
            {"controlServerType": "cx23"},
            [["fsn1 has no capacity for this type now", "available in nbg1", "fsn1 offers cax11, cpx22"]],
        ),
        ({"controlServerType": "cx23", "fallbacks": '[{"location": "nbg1"}]'}, []),
        ({"controlServerType": "cx23", "fallbacks": '[{"serverType": "cpx22"}]'}, []),
        ({"controlServerType": "cax11"}, []),
        ({"workerServerType": "cax11", "workerCount": "1"}, []),
        # an image is needed for each architecture
        ({"image": "alma-9", "workerCount": "0"}, []),
        (
            {"image": "alma-9", "workerServerType": "cax11", "workerCount": "1"},
            [["image: 'alma-9'", "there are ubuntu-24.04"]],
        ),
    ],
)
def test_settings_are_compared_with_what_the_cloud_has(defaults, changes, says):
    found = problems(defaults, **changes)
    assert len(found) == len(says)
    for problem, texts in zip(found, says, strict=True):
        assert all(text in problem for text in texts), problem


def test_each_pool_is_compared_with_what_the_cloud_has(defaults):
    arm, one = {"name": "arm", "count": 1, "serverType": "cax11"}, {"count": 1}
    pools = [
        {**arm, "image": "alma-9"},
        {**one, "name": "far", "location": "ash"},
        {**one, "name": "nowhere", "location": "fsn"},
        {**one, "name": "b", "serverType": "cx23"},
        {**one, "name": "c", "serverType": "cpx222"},
        {"name": "none", "count": 0, "serverType": "nonsense"},
    ]
    found = {
        problem.partition(":")[2].partition(":")[0] for problem in problems(defaults, pools=json.dumps(pools))
    }
    of_pools = {"[0].image", "[1].location", "[2].location", "[3].serverType", "[4].serverType"}
    assert found == {"workerServerType", *(f"pools{key}" for key in of_pools)}
    # the type of the stack's workers doesn't matter beside pools with their own
    assert problems(defaults, pools=json.dumps([arm]), workerServerType="x") == []


@pytest.mark.parametrize("balancer", [{"apiEndpoint": "load-balancer"}, {"ingress": "traefik"}])
def test_a_load_balancer_needs_a_location_also_where_no_server_stands(defaults, balancer):
    elsewhere = {
        "controlLocations": "nbg1",
        "pools": json.dumps([{"name": "a", "count": 1, "location": "nbg1"}]),
    }
    for changes in (balancer, {}):
        (problem,) = problems(defaults, location="fsn2", **elsewhere, **changes)
        assert problem.startswith("ccm-from-scratch:location: 'fsn2'")
    (problem,) = problems(defaults, location="ash", **elsewhere, **balancer)
    assert problem.startswith("ccm-from-scratch:networkZone: 'eu-central'")
    assert problems(defaults, location="fsn1", **elsewhere, **balancer) == []
    # nothing is made there
    assert problems(defaults, location="ash", **elsewhere) == []


def test_no_room_at_the_fallbacks_either(defaults):
    (problem,) = problems(defaults, controlServerType="cx23", fallbacks='[{"serverType": "cax11"}]')
    assert problem.endswith("ccm-from-scratch:fallbacks may name alternatives")  # another processor
    sold_out = Catalogue({**CATALOGUE.zones}, {"cx23": {"fsn1": False, "nbg1": False}}, CATALOGUE.images)
    both = '[{"location": "nbg1"}]'
    found = read_settings(configured(defaults, controlServerType="cx23", location="fsn1", fallbacks=both))
    _, messages = placed(found, sold_out, {})
    assert str(messages[0]).endswith("have no capacity either: cx23 in nbg1")


def test_a_pool_has_fallbacks_of_its_own(defaults):
    def choices(**own):
        pool = {"name": "db", "count": 1, "serverType": "cx23", **own}
        fallbacks = '[{"location": "nbg1"}]'
        changes = {"ccm-from-scratch:pools": json.dumps([pool]), "ccm-from-scratch:fallbacks": fallbacks}
        settings = read_settings({**defaults, **changes})
        found, problems = placed(settings, CATALOGUE, {})
        return str(found[-1].placement), [problem.key for problem in problems]

    assert choices() == ("cx23 in nbg1", [])
    assert choices(fallbacks=[{"serverType": "cpx22"}]) == ("cpx22 in fsn1", [])
    assert choices(fallbacks=[]) == ("cx23 in fsn1", ["ccm-from-scratch:pools[0].serverType"])
    wrong = choices(fallbacks=[{"serverType": "cpx2"}, {"location": "nbg1"}])
    assert wrong == ("cx23 in nbg1", ["ccm-from-scratch:pools[0].fallbacks[0].serverType"])
    with pytest.raises(
        ConfigurationError, match=r"pools\[0\]\.fallbacks: .*fallbacks\[0\]\.typ: there is no"
    ):
        choices(fallbacks=[{"typ": "cpx22"}])


def test_fallbacks_are_what_there_is_in_the_zone(defaults):
    wrong = '[{"serverType": "cpx2"}, {"location": "ash"}, {"location": "nbg2"}]'
    found = problems(defaults, fallbacks=wrong)
    assert [line.split(": ")[0] for line in found] == [
        "ccm-from-scratch:fallbacks[0].serverType",
        "ccm-from-scratch:fallbacks[1].location",
        "ccm-from-scratch:fallbacks[2].location",
    ]
    assert "did you mean cpx22?" in found[0]
    assert found[1].endswith("there are fsn1, nbg1")


def test_existing_servers_need_no_capacity_and_are_reported_if_deprecated(defaults):
    settings = read_settings({**defaults, "ccm-from-scratch:controlServerType": "cx23"})
    there = {"control": Present(Placement("cx23", "fsn1"))}
    assert placed(settings, CATALOGUE, there)[1] == []
    elsewhere = {"control": Present(Placement("cx23", "nbg1"))}
    (problem,) = placed(settings, CATALOGUE, elsewhere)[1]
    assert problem.allowed.endswith("uses a fallback only for a new server")


def test_many_servers_without_room_are_one_problem(defaults):
    (problem,) = problems(defaults, workerServerType="cx23", workerCount="9")
    assert problem.startswith("ccm-from-scratch:workerServerType: 'cx23'")
    wanted = {"ccm-from-scratch:workerServerType": "cx23", "ccm-from-scratch:workerCount": "9"}
    settings = read_settings({**defaults, **wanted})
    there = {f"worker-{n}": Present(Placement("cx23", "fsn1"), image="other") for n in range(1, 10)}
    (problem,) = placed(settings, CATALOGUE, there)[1]
    assert "replaced because of another image" in problem.allowed


@pytest.mark.parametrize(
    ("unavailable_after", "there"),
    [
        ("2026-11-21T23:59:59", False),
        ("2026-11-21T23:59:59Z", False),
        ("2026-11-22T00:00:00Z", False),
        ("2026-11-22T00:00:01+00:00", True),
    ],
)
def test_what_is_sold_no_more_can_not_be_had(unavailable_after, there):
    place = {"name": "fsn1", "available": True, "deprecation": {"unavailable_after": unavailable_after}}
    kind = {"name": "cx11", "architecture": "x86", "disk": 20, "locations": [place]}
    empty = {"locations": [], "images": [], "server_types": [kind]}

    def fetch(path):
        resource = path.strip("/").partition("?")[0]
        return {resource: empty[resource], "meta": {"pagination": {"next_page": None}}}

    assert read_catalogue(fetch, NOW).server_types == {"cx11": {"fsn1": there}}


def test_servers_that_exist_go_on_without_their_image_and_type(defaults):
    """Hetzner takes both away some months after their deprecation."""
    names = {"image": "debian-9", "controlServerType": "cx11", "workerServerType": "cx11"}
    settings = read_settings(configured(defaults, **names))

    def wrong_with(*present, image="debian-9", kind="cx11"):
        there = {role: Present(Placement(kind, "fsn1"), image=image) for role in present}
        servers, _ = placed(settings, CATALOGUE, there)
        needed = needed_for(servers, settings.autoscaled, there)
        found = catalogue_problems(settings, CATALOGUE, needed)
        return {problem.key.removeprefix("ccm-from-scratch:") for problem in found}

    everybody = ("control", "worker-1", "worker-2")
    assert wrong_with(*everybody) == set()
    # the cloud does not tell any more what it was
    assert wrong_with(*everybody, image="") == set()
    # one is new, or all are recreated
    assert wrong_with("control", "worker-1") == {"image", "controlServerType", "workerServerType"}
    assert wrong_with(*everybody, image="debian-12") == {"image", "controlServerType", "workerServerType"}
    # the only control server is not recreated for another type
    assert wrong_with(*everybody, kind="cpx22") == {"image", "controlServerType", "workerServerType"}


def test_a_server_gets_another_type_of_its_processor_when_its_own_is_sold_no_more(defaults):
    settings = read_settings({**defaults, "ccm-from-scratch:controlServerType": "cax21"})
    catalogue = replace(CATALOGUE, arm=frozenset({"cax21"}), disks={"cax21": 80})
    there = {"control": Present(Placement("cax11", "fsn1"), disk=40, is_arm=True)}
    servers, _ = placed(settings, catalogue, there)
    assert type_problems(servers, catalogue, there) == []
    there = {"control": replace(there["control"], is_arm=False)}
    (problem,) = type_problems(servers, catalogue, there)
    assert "the same processor architecture" in problem.allowed


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"image": "ubuntu-24"}, "did you mean ubuntu-24.04?"),
        ({"image": "99999999"}, "no such image"),
        ({"image": "4713"}, "architecture arm, but cpx22 has x86"),
        ({"image": "4714"}, "creating"),
        ({"image": "4715"}, "no such image"),
        ({"image": "4712", "workerServerType": "cx23"}, "a disk of 80 GB, but cx23 has 40 GB"),
        ({"pools": '[{"name": "a", "count": 1, "image": "99999999"}]'}, "no such image"),
        ({"pools": '[{"name": "a", "min": 0, "max": 1, "image": "4714"}]'}, "creating"),
    ],
)
def test_an_image_that_servers_can_not_be_made_of(defaults, changes, why):
    hcloud = {"cloudProviderName": "hcloud"} if '"max"' in changes.get("pools", "") else {}
    (problem,) = [text for text in problems(defaults, **changes, **hcloud) if "capacity" not in text]
    assert why in problem
    assert problem.split(":")[1].startswith("pools[0].image" if "pools" in changes else "image")


def test_a_snapshot_fits(defaults):
    assert problems(defaults, image="4711") == problems(defaults, image="4712") == []


@pytest.mark.parametrize("token", [None, "", "secret", "s" * 63 + "-", "s" * 65])
def test_a_text_that_is_no_token_is_not_shown(token):
    with pytest.raises(ConfigurationError, match="hcloud:token") as caught:
        check_token(token)
    assert not token or token not in str(caught.value)


def test_the_stack_beats_the_environment():
    environment = {"HCLOUD_TOKEN": TOKEN, "HCLOUD_ENDPOINT": "http://127.0.0.1:1/v1"}
    assert cloud_of({}, environment).endpoint == "http://127.0.0.1:1/v1"
    assert cloud_of({"hcloud:endpoint": "https://other/v1/"}, environment).endpoint == "https://other/v1"
    assert cloud_of({"hcloud:token": "u" * 64}, environment).token == "u" * 64
    assert TOKEN not in repr(cloud_of({}, environment))


_LOST = (b"", b"nonsense\r\n\r\n", b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n{")
_BUSY = {"code": "rate_limit_exceeded", "message": "too many"}


@pytest.fixture
def api():
    """An API with two pages of everything that knows one token, too busy twice for one list."""
    busy = {}

    class Asked(Json, BaseHTTPRequestHandler):
        def do_GET(self):
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                return self.answer(401, {"error": {"code": "unauthorized"}})
            if self.path.startswith("/v1/broken"):
                return self.answer(500, {})
            if self.path.startswith("/v1/busy") and (refusals := busy.get(self.path, 2)):
                busy[self.path] = refusals - 1
                return self.answer(*({1: (503, {}), 2: (429, {"error": _BUSY})}[refusals]))
            if self.path.startswith("/v1/pricing"):
                kinds = {"server_types": [], "load_balancer_types": [], "primary_ips": []}
                return self.answer(200, {"pricing": {"currency": "EUR", "vat_rate": "19.00", **kinds}})
            if self.path.startswith(("/v1/servers?", "/v1/load_balancers?")):
                nothing = {"servers": [], "load_balancers": [], "meta": {"pagination": {"next_page": None}}}
                return self.answer(200, nothing)
            resource, page = self.path.split("/")[2].split("?")[0], "page=2" in self.path
            item = {"id": 1 + page, "name": f"{resource}-{1 + page}", "network_zone": "eu-central"}
            item |= {"architecture": "x86" if page else "arm", "disk": 40}
            item["locations"] = [{"name": "locations-1", "available": page}]
            paging = {"pagination": {"next_page": None if page else 2}}
            return self.answer(200, {resource: [item], "meta": paging})

    with serving(Asked) as port:
        yield f"http://127.0.0.1:{port}/v1"


def test_all_pages_are_read(api):
    catalogue = read_catalogue(fetcher(Cloud(api, TOKEN)), NOW)
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
    at = iter(range(100))
    patience = Patience(seconds=3, now=lambda: next(at), sleep=lambda _: None)
    with pytest.raises(CloudError, match=r"answered GET /broken\?per_page=50&page=1 with 500") as caught:
        everything(fetcher(Cloud(api, TOKEN), patience=patience), "broken", "")
    assert caught.value.status == 500
    assert next(at) == 4  # it was asked again until then


def test_an_api_that_is_too_busy_for_a_moment_is_asked_again(api):
    pauses = []
    found = everything(fetcher(Cloud(api, TOKEN), patience=Patience(sleep=pauses.append)), "busy", "")
    assert [item["id"] for item in found] == [1, 2]
    assert pauses == [1.0, 1.0] * 2


@pytest.fixture
def losing():
    """An API whose first answers are lost, or half of each."""
    answers = [*_LOST, b"HTTP/1.0 200 OK\r\n\r\n{}"]

    class Asked(Json, BaseHTTPRequestHandler):
        def do_GET(self):
            self.wfile.write(answers.pop(0))

    with serving(Asked) as port:
        yield f"http://127.0.0.1:{port}/v1"


def test_an_answer_that_was_lost_is_asked_for_again(losing):
    pauses = []
    with pytest.raises(CloudError, match=r"did not answer GET /servers"):
        fetcher(Cloud(losing, TOKEN), patience=Patience(seconds=0))("/servers")
    assert fetcher(Cloud(losing, TOKEN), patience=Patience(sleep=pauses.append))("/servers") == {}
    assert len(pauses) == len(_LOST) - 1


def test_only_http_is_asked():
    with pytest.raises(CloudError, match="use an https:// or http://"):
        fetcher(Cloud("file:///etc", TOKEN))("/passwd")


def test_settings_and_what_the_cloud_has_are_checked_together(api, defaults):
    environment = {"HCLOUD_ENDPOINT": api, "HCLOUD_TOKEN": TOKEN}
    configuration = {**defaults, "ccm-from-scratch:workerCuont": "1", "ccm-from-scratch:location": "a b"}
    with pytest.raises(ConfigurationError) as caught:
        check_everything(configuration, "local", environment)
    keys = [problem.key.partition(":")[2] for problem in caught.value.problems]
    assert keys == ["location", "workerCuont", "controlServerType", "workerServerType", "image"]


def test_settings_are_checked_although_the_cloud_does_not_answer(defaults):
    environment = {"HCLOUD_ENDPOINT": "http://127.0.0.1:1/v1", "HCLOUD_TOKEN": TOKEN}
    with pytest.raises(CloudError, match=r"127\.0\.0\.1:1/v1 is unreachable: .*refused"):
        check_everything(defaults, "local", environment)
    with pytest.raises(ConfigurationError, match="sshAllowedCidrs: is not set"):
        check_everything({**defaults, "ccm-from-scratch:sshAllowedCidrs": "[]"}, "local", environment)
