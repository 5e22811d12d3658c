from __future__ import annotations

from pathlib import Path

from hetzner_machines.guest import disks


def test_what_a_guest_has_put_in_the_place_of_a_mount_keeps_no_machine_from_its_start(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = disks.place(5)
    place.parent.mkdir()
    place.write_text("the guest's")
    assert disks._mount(Path("dev/loop0"), place) == f"{place} is not mounted: File exists"
