from image.lockfile import Pin
from sandbox.commands.lock import differences


def pin(name: str, version: str, architecture: str = "amd64") -> Pin:
    return Pin(name, architecture, version, "p", "0", 1)


def test_changes_by_platform() -> None:
    before = [pin("libc6", "1"), pin("libc6", "1", "arm64"), pin("old", "3")]
    after = [pin("libc6", "2"), pin("libc6", "1", "arm64"), pin("fresh", "4")]
    assert differences(before, after) == [
        "fresh (amd64): new → 4",
        "libc6 (amd64): 1 → 2",
        "old (amd64): 3 → gone",
    ]
