from pathlib import Path

from hetzner_machines.guest import disks


def test_a_guests_file_at_a_mount_point_is_ignored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = disks.place(5)
    place.parent.mkdir()
    place.write_text("the guest's")
    assert disks._mount(Path("dev/loop0"), place) == f"{place} is not mounted: File exists"
