from __future__ import annotations

import asyncssh

from infra import keys


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
