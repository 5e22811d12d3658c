from pathlib import Path

from hetzner_machines import counters
from hetzner_machines.records import Hierarchy

HAPROXY = """# pxname,svname,scur,stot,bin,bout,req_tot,mode,conn_tot
port-80,FRONTEND,2,10,100,2000,30,http,11
port-22,FRONTEND,1,5,10,20,0,tcp,5
service-80,target-10.0.0.2,2,10,100,2000,30,http,
service-80,BACKEND,2,10,100,2000,30,http,
"""


def test_cgroups_of_version_1(tmp_path: Path):
    files = {
        "cpuacct/cpuacct.usage": "2500000000\n",
        "blkio/blkio.throttle.io_service_bytes_recursive": "8:0 Read 10\n8:0 Write 4\n8:16 Read 1\n",
        "blkio/blkio.throttle.io_serviced_recursive": "8:0 Read 2\n8:0 Write 1\nTotal 3\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    own = [Hierarchy(str(tmp_path / name), "cgroup", name, name) for name in ("cpuacct", "blkio", "pids")]
    assert counters.of_cgroups(own) == {
        "cpu": 250.0,
        "disk.0.bandwidth.read": 11.0,
        "disk.0.bandwidth.write": 4.0,
        "disk.0.iops.read": 2.0,
        "disk.0.iops.write": 1.0,
    }


def test_cgroups_of_version_2(tmp_path: Path):
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    (tmp_path / "io.stat").write_text("8:0 rbytes=10 wbytes=4 rios=2 wios=1\n8:16 rbytes=1 wbytes=0\n")
    own = [Hierarchy(str(tmp_path), "cgroup2", "", "rw")]
    assert counters.of_cgroups(own)["cpu"] == 250.0
    assert counters.of_cgroups(own)["disk.0.bandwidth.read"] == 11.0
    assert counters.of_cgroups([Hierarchy(str(tmp_path / "gone"), "cgroup2", "", "rw")]) == {}


def test_a_port_is_seen_from_the_other_side():
    seen = {"rx": {"bytes": 5, "packets": 1}, "tx": {"bytes": 700, "packets": 9}}
    assert counters.of_port({"stats64": seen}) == {
        "network.0.pps.in": 9.0,
        "network.0.bandwidth.in": 700.0,
        "network.0.pps.out": 1.0,
        "network.0.bandwidth.out": 5.0,
    }


def test_a_balancer_adds_up_its_ports():
    assert counters.of_balancer(HAPROXY) == {
        "open_connections": 3.0,
        "connections_per_second": 16.0,
        "requests_per_second": 35.0,
        "bandwidth.in": 110.0,
        "bandwidth.out": 2020.0,
    }
    assert counters.of_balancer("")["open_connections"] == 0.0
