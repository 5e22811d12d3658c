import subprocess

import asyncssh

from ccm_pulumi.servers import keys
from ccm_pulumi.servers.root_key import add_script, public_half, remove_script


def test_a_pair_as_openssh_writes_it():
    pair = keys.new_key_pair("ccm dev env")
    private = asyncssh.import_private_key(pair["private_key"])
    public = asyncssh.import_public_key(pair["public_key"])
    assert private.public_data == public.public_data
    assert public.get_comment() == "ccm dev env"
    assert pair["public_key"] == pair["public_key"].strip()


def test_the_pair_never_changes():
    assert keys.KeyPairProvider().diff("", {"comment": "a"}, {"comment": "b"}).changes is False


def test_the_shared_secret_is_drawn_once():
    provider = keys.SharedSecretProvider()
    first, second = (provider.create({}).outs["value"] for _ in range(2))
    assert first != second
    assert len(first) == 64
    assert provider.diff("", {"value": first}, {}).changes is False


def test_a_key_takes_the_place_of_another_and_the_others_stay(tmp_path):
    file = tmp_path / "authorized_keys"
    old, new = keys.new_key_pair("shop dev env"), keys.new_key_pair("shop dev env")
    file.write_text(f"ssh-ed25519 AAAAothers of a colleague\n{old['public_key']}")  # without a newline
    file.chmod(0o600)

    def run(script):
        subprocess.run(["sh", "-e", "-c", script], check=True, timeout=60)
        return [
            asyncssh.import_public_key(line) for line in file.read_text().splitlines() if "AAAAC3" in line
        ]

    assert public_half(old["private_key"]) in old["public_key"]
    for _ in range(2):  # a run may end in between, and the next one begins again
        assert len(run(add_script(public_half(new["private_key"]), str(file)))) == 2
    for _ in range(2):
        (left,) = run(remove_script(public_half(old["private_key"]), str(file)))
        assert left == asyncssh.import_public_key(new["public_key"])
    assert "of a colleague" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
