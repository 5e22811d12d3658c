"""Whole programs of dynamic resources: what is done to which resource, in which order."""

from __future__ import annotations

import json

import pytest
from engine_lab import Lab

from sandbox.engine.state.secrets import Crypter

pytestmark = pytest.mark.slow

CHAIN = """
a = Thing("a", host=os.environ.get("HOST_A", "h"), size=int(os.environ.get("SIZE_A", "1")))
b = Thing("b", host=a.host, opts=O(depends_on=[a]))
pulumi.export("made", a.made)
"""


def test_up_again_changes_nothing_and_destroy_goes_backwards(lab: Lab) -> None:
    first = lab.up(CHAIN)
    assert first.startswith("Embedded engine of ccm-from-scratch (this is not the Pulumi CLI)")
    assert "+ 3 created" in first
    assert lab.journal() == ["create a", "create b"]
    before = (lab.root / "state/.pulumi/stacks/lab/dev.json").read_text()
    again = lab.up()
    assert "3 unchanged" in again
    assert lab.journal() == []
    after = (lab.root / "state/.pulumi/stacks/lab/dev.json").read_text()
    assert (
        json.loads(after)["checkpoint"]["latest"]["resources"]
        == json.loads(before)["checkpoint"]["latest"]["resources"]
    )
    assert lab.outputs() == {"made": 2}
    done = lab.run("destroy", "--yes")
    assert "- 3 deleted" in done.out
    assert lab.journal() == ["delete b", "delete a"]
    assert lab.state()["resources"] == []


def test_a_preview_tells_and_changes_nothing(lab: Lab) -> None:
    lab.up(CHAIN)
    lab.journal()
    state = lab.state()
    done = lab.run("preview", SIZE_A="2", HOST_A="g")
    assert "+-2 to replace" in done.out
    assert "a replace [diff: ~host,size]" in done.out
    assert lab.journal() == []
    assert lab.state() == state


def test_updates_happen_in_place(lab: Lab) -> None:
    lab.up(CHAIN)
    lab.journal()
    done = lab.up(SIZE_A="5")
    assert "~ 1 updated" in done
    assert lab.journal() == ["update a"]
    assert lab.outputs() == {"made": 10}


def test_a_replacement_is_created_before_the_original_goes(lab: Lab) -> None:
    lab.up(CHAIN)
    lab.journal()
    lab.up(HOST_A="g")
    assert lab.journal() == ["create a", "create b", "delete b", "delete a"]
    assert lab.resources()["b"]["outputs"]["host"] == "g"


def test_delete_before_replace_takes_dependents_along(lab: Lab) -> None:
    body = CHAIN.replace('"SIZE_A", "1")))', '"SIZE_A", "1")), opts=O(delete_before_replace=True))')
    lab.up(body)
    lab.journal()
    done = lab.up(HOST_A="g")
    assert lab.journal() == ["delete b", "delete a", "create a", "create b"]
    assert "+-2 replaced" in done


def test_a_dependent_that_must_be_replaced_on_changes_goes_first(lab: Lab) -> None:
    lab.up("""
    a = Thing("a", first=True, host=os.environ.get("HOST_A", "h"))
    Thing("b", size=a.made, opts=O(replace_on_changes=["size"]))
    """)
    lab.journal()
    lab.up(HOST_A="g")
    assert lab.journal() == ["delete b", "delete a", "create a", "create b"]


def test_what_is_deleted_to_be_made_anew_stays_in_the_state_until_then(lab: Lab) -> None:
    body = 'a = Thing("a", first=True{}); Thing("c", opts=O(depends_on=[a]))'
    lab.up(body.format(""))
    lab.journal()
    lab.up(body.format(', host="g", word="fail"'), status=1)
    assert lab.journal() == ["delete a", "create a"]
    state = lab.resources()
    assert state["a"]["pendingReplacement"] is True
    assert state["c"]["dependencies"] == [state["a"]["urn"]]
    lab.up(body.format(', host="g"'))
    assert lab.journal() == ["create a"]
    assert "pendingReplacement" not in lab.resources()["a"]
    assert lab.run("destroy", "--yes").status == 0
    assert lab.journal() == ["delete c", "delete a"]


def test_what_the_program_no_longer_has_is_deleted(lab: Lab) -> None:
    lab.up(CHAIN)
    lab.journal()
    lab.up('Thing("a")')
    assert lab.journal() == ["delete b"]
    assert list(lab.resources()) == ["a"]


def test_a_failure_keeps_what_was_done_and_deletes_nothing(lab: Lab) -> None:
    lab.up('Thing("old")')
    lab.journal()
    out = lab.up('a = Thing("a"); b = Thing("b", word="fail", opts=O(depends_on=[a]))', status=1)
    assert "RuntimeError: the word is fail" in out
    assert "Traceback" not in out
    assert lab.journal() == ["create a", "create b"]
    assert sorted(lab.resources()) == ["a", "old"]
    assert "pending_operations" not in lab.state()
    lab.up('a = Thing("a"); b = Thing("b", word="fine", opts=O(depends_on=[a]))')
    assert lab.journal() == ["create b", "delete old"]


def test_the_programs_own_exception_shows_its_own_lines(lab: Lab) -> None:
    out = lab.up('Thing("a")\nraise ValueError("not like this")', status=1)
    assert "ValueError: not like this" in out
    assert "__main__.py" in out
    assert "sandbox/engine" not in out


def test_a_failed_preview_has_changed_nothing(lab: Lab) -> None:
    lab.program('Thing("a", size=-1)')
    done = lab.run("preview")
    assert done.status == 1
    assert "The preview failed; nothing was changed." in done.out


def test_a_check_failure_names_the_property(lab: Lab) -> None:
    assert "error: size: must not be negative" in lab.up('Thing("a", size=-1)', status=1)


def test_two_resources_of_one_name_are_refused(lab: Lab) -> None:
    assert "Duplicate resource URN" in lab.up('Thing("a"); Thing("a")', status=1)


@pytest.mark.parametrize("command", ["destroy", "up"])
def test_protected_resources_are_never_deleted(lab: Lab, command: str) -> None:
    lab.up('Thing("a", opts=O(protect=True)); Thing("b")')
    lab.journal()
    lab.program("")
    done = lab.run(command, "--yes")
    assert done.status == 1
    assert "can't be deleted because it is protected" in done.out
    assert lab.journal() == []
    lab.up('Thing("a", opts=O(protect=False))')
    assert lab.run("destroy", "--yes").status == 0


def test_one_run_may_take_the_protection_away_and_replace(lab: Lab) -> None:
    for first in ("True", "False"):
        lab.up(f'Thing("a", first={first}, host="h", opts=O(protect=True))')
        assert "can't be replaced" in lab.up(f'Thing("a", first={first}, host="g", opts=O(protect=True))', 1)
        lab.up(f'Thing("a", first={first}, host="g")')
        assert lab.resources()["a"]["outputs"]["host"] == "g"
        assert len(lab.resources()) == 1
        assert lab.run("destroy", "--yes").status == 0


def test_children_inherit_what_their_parent_says_about_their_end(lab: Lab) -> None:
    body = """
    class Group(pulumi.ComponentResource):
        def __init__(self, name, opts=None):
            super().__init__("lab:index:Group", name, None, opts)
            inner = pulumi.ComponentResource("lab:index:Inner", name, None, O(parent=self))
            Thing(f"{name}-kept", opts=O(parent=inner))
            Thing(f"{name}-own", opts=O(parent=inner, retain_on_delete=False, deleted_with=a))
    a = Thing("a")
    Group("g", O(deleted_with=a))
    Group("k", O(retain_on_delete=True))
    """
    lab.up(body)
    lab.journal()
    resources = lab.resources()
    assert resources["g-kept"]["deletedWith"] == resources["a"]["urn"]
    assert lab.run("destroy", "--yes").status == 0
    assert lab.journal() == ["delete a"], "the others go with it, or stay"


def test_retained_resources_leave_only_the_state(lab: Lab) -> None:
    lab.up('Thing("a", opts=O(retain_on_delete=True))')
    lab.journal()
    lab.up("")
    assert lab.journal() == []
    assert lab.resources() == {}


def test_what_goes_with_another_is_not_deleted_itself(lab: Lab) -> None:
    lab.up('a = Thing("a"); Thing("b", opts=O(deleted_with=a))')
    lab.journal()
    lab.run("destroy", "--yes")
    assert lab.journal() == ["delete a"]


def test_what_goes_with_another_is_deleted_before_that_is_made_anew(lab: Lab) -> None:
    lab.up("""
a = Thing("a", host=os.environ.get("H", "h"), first=True)
b = Thing("b", opts=O(deleted_with=a))
Thing("c", opts=O(deleted_with=b))
""")
    lab.journal()
    lab.up(H="g")
    # c goes with b, which is gone for good at that moment
    assert lab.journal() == ["delete b", "delete a", "create a", "create b", "create c"]


def test_ignored_changes_are_ignored_and_forced_replacements_forced(lab: Lab) -> None:
    body = """
    size = int(os.environ.get("S", "1"))
    Thing("a", size=size, opts=O(ignore_changes=["size"]))
    Thing("b", size=size, opts=O(replace_on_changes=["size"]))
    """
    lab.up(body)
    lab.journal()
    lab.up(S="2")
    assert lab.journal() == ["create b", "delete b"]


def test_the_command_line_can_ask_for_a_replacement(lab: Lab) -> None:
    lab.up('Thing("a"); Thing("b")')
    lab.journal()
    urn = lab.resources()["a"]["urn"]
    assert f"  URN: {urn}\n" in lab.run("stack", "--show-urns").out
    assert "URN" not in lab.run("stack").out
    assert "+-1 to replace" in lab.run("preview", "--replace", urn).out
    assert lab.run("up", "--yes", "--replace", urn).status == 0
    assert lab.journal() == ["create a", "delete a"]
    assert "the stack has no resource 'urn:c'" in lab.run("up", "--yes", "--replace", "urn:c").out
    for item in lab.state()["resources"]:
        if item["type"].startswith("pulumi:"):
            refused = lab.run("up", "--yes", "--replace", item["urn"])
            assert refused.status == 1
            assert "can't be made anew" in refused.out


def test_what_a_genuine_engine_was_replacing_is_made_anew(lab: Lab) -> None:
    lab.up('Thing("a"); Thing("b")')
    exported = json.loads(lab.run("stack", "export").out)
    for resource in exported["deployment"]["resources"]:
        if resource["urn"].endswith(("::a", "::b")):
            resource["pendingReplacement"] = True  # deleted already, not yet made again
    (lab.root / "export.json").write_text(json.dumps(exported))
    assert lab.run("stack", "import", "--file", str(lab.root / "export.json")).status == 0
    lab.journal()
    lab.up('Thing("a")')
    assert lab.journal() == ["create a"]
    assert "pendingReplacement" not in lab.resources()["a"]


def test_an_alias_renames_without_a_replacement(lab: Lab) -> None:
    lab.up('Thing("a")')
    lab.journal()
    lab.up("""
    class Group(pulumi.ComponentResource):
        def __init__(self, name):
            super().__init__("lab:index:Group", name)
    g = Group("g")
    Thing("a", opts=O(parent=g, aliases=[pulumi.Alias(parent=pulumi.ROOT_STACK_RESOURCE)]))
    """)
    assert lab.journal() == []
    assert "lab:index:Group$pulumi-python:dynamic:Resource::a" in lab.resources()["a"]["urn"]


def test_children_follow_an_alias_of_their_parent(lab: Lab) -> None:
    boxes = """
    class Box(pulumi.ComponentResource):
        def __init__(self, kind, name, opts=None):
            super().__init__(f"lab:index:{kind}", name, None, opts)
            inner = Thing(f"{name}-inner", opts=O(parent=self), label="inner")
            Thing("own", opts=O(parent=inner), label="own")
    """
    lab.up(boxes + 'Box("Box", "one")')
    lab.journal()
    lab.up(boxes + 'Box("Crate", "two", O(aliases=[pulumi.Alias(name="one", type_="lab:index:Box")]))')
    assert lab.journal() == []
    assert set(lab.resources()) == {"two-inner", "own"}
    assert {item["urn"].split("::")[2].split("$")[0] for item in lab.resources().values()} == {
        "lab:index:Crate"
    }


def test_a_run_that_ends_after_a_renaming_leaves_no_dangling_reference(lab: Lab) -> None:
    lab.up('a = Thing("a"); Thing("b", O(depends_on=[a], deleted_with=a))')
    broken = (
        'a = Thing("c", O(aliases=[pulumi.Alias(name="a")]), label="a"); a.made.apply(lambda made: 1 / 0)'
    )
    lab.up(broken, status=1)
    resources = lab.resources()
    assert resources["b"]["dependencies"] == [resources["c"]["urn"]]
    assert resources["b"]["deletedWith"] == resources["c"]["urn"]


def test_a_custom_timeout_ends_a_creation(lab: Lab) -> None:
    out = lab.up(
        'Thing("a", word="block", opts=O(custom_timeouts=pulumi.CustomTimeouts(create="1s")))', status=1
    )
    assert "did not finish within its custom timeout of 1 s" in out


def test_secrets_stay_secret_in_state_and_output(lab: Lab) -> None:
    lab.run("config", "set", "word", "s3cret", "--secret")
    assert "s3cret" not in (lab.project / "Pulumi.dev.yaml").read_text()
    out = lab.up("""
    word = pulumi.Config().require_secret("word")
    a = Thing("a", word=word, opts=O(replace_on_changes=["word"]))
    pulumi.export("word", a.word)
    pulumi.export("nested", {"w": word})
    """)
    assert "word  : [secret]" in out
    text = (lab.root / "state/.pulumi/stacks/lab/dev.json").read_text()
    assert "s3cret" not in text
    assert lab.outputs() == {"nested": {"w": "s3cret"}, "word": "s3cret"}
    shown = lab.run("stack", "output", "--json")
    assert json.loads(shown.out) == {"nested": {"w": "[secret]"}, "word": "[secret]"}
    assert lab.run("stack", "output", "word").out.strip() == "[secret]"
    assert lab.run("stack", "output", "word", "--show-secrets").out.strip() == "s3cret"
    state = lab.state()
    crypter = Crypter("x", state["secrets_providers"]["state"]["salt"])
    assert crypter.decrypt(lab.resources()["a"]["outputs"]["word"]["ciphertext"]) == '"s3cret"'
    assert (
        lab.run("up", "--yes", PULUMI_CONFIG_PASSPHRASE="wrong")
        .err.strip()
        .endswith("error: incorrect passphrase")
    )


def test_refresh_sees_what_others_did(lab: Lab) -> None:
    lab.up('a = Thing("a"); Thing("b", opts=O(depends_on=[a])); pulumi.export("made", a.made)')
    lab.journal()
    done = lab.run("refresh", "--yes", GONE='["a"]', DRIFT='{"size": 7}')
    assert "forgotten: " in done.out
    resources = lab.resources()
    assert list(resources) == ["b"]
    assert resources["b"]["outputs"]["size"] == 7
    assert "dependencies" not in resources["b"]
    lab.up()
    assert lab.journal() == ["create a", "update b"]


def test_refresh_always_looks_before_every_run(lab: Lab) -> None:
    lab.write("Pulumi.yaml", "name: lab\nruntime: python\noptions:\n  refresh: always\n")
    lab.up('Thing("a")')
    lab.journal()
    assert lab.run("up", "--yes", "--refresh=false", GONE='["a"]').status == 0
    assert lab.journal() == []
    lab.up(GONE='["a"]')
    assert lab.journal() == ["create a"]


def test_resources_are_made_in_parallel_up_to_the_limit(lab: Lab) -> None:
    lab.program("for n in range(3): Thing(str(n), word='together')")
    assert lab.run("up", "--yes", "--parallel", "2").status == 0
    journal = [line.split()[0] for line in lab.journal()]
    assert journal[:3] == ["create", "create", "made"]
    assert sorted(journal) == ["create"] * 3 + ["made"] * 3


def test_a_state_with_hooks_is_left_to_the_genuine_engine(lab: Lab) -> None:
    lab.up('Thing("a")')
    exported = json.loads(lab.run("stack", "export").out)
    exported["deployment"]["resources"][-1]["resourceHooks"] = {"BeforeDelete": ["h"]}
    (lab.root / "export.json").write_text(json.dumps(exported))
    assert lab.run("stack", "import", "--file", str(lab.root / "export.json")).status == 0
    done = lab.run("destroy", "--yes")
    assert done.status == 1
    assert "does not support resource hooks" in done.err


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('Thing("a", opts=O(plugin_download_url="x"))', "the resource option 'plugin_download_url'"),
        ("pulumi.runtime.invoke('aws:index:f', {})", "the function 'aws:index:f'"),
        ("pulumi.StackReference('other')", "reading the resource 'other'"),
        ('Thing("a", opts=O(replacement_trigger="x"))', "the resource option 'replacement_trigger'"),
        (
            'Thing("a", opts=O(hooks=pulumi.ResourceHookBinding(before_create=[lambda args: None])))',
            "does not support resource hooks",
        ),
        ('pulumi.ComponentResource("a:b:C", "c", remote=True)', "the remote component 'a:b:C'"),
        ("class C(pulumi.CustomResource): pass\nC('aws:s3:Bucket', 'b', {})", "the provider package 'aws'"),
        ('Thing("a", word=pulumi.FileAsset("x"))', "assets and archives"),
        ('Thing("a", opts=O(transforms=[lambda a: None]))', "does not support transforms"),
    ],
)
def test_what_it_can_not_do_is_named(lab: Lab, body: str, told: str) -> None:
    assert told in lab.up(body, status=1)


def test_stack_references_and_outputs_survive_a_failure(lab: Lab) -> None:
    lab.up('pulumi.export("a", 1); pulumi.export("b", 2)')
    lab.up('pulumi.export("a", 3)\nraise RuntimeError', status=1)
    assert lab.outputs()["b"] == 2


def test_the_state_can_be_exported_and_imported(lab: Lab) -> None:
    lab.run("config", "set", "word", "s3cret", "--secret")
    lab.up('Thing("a", word=pulumi.Config().require_secret("word"))')
    lab.journal()
    exported = lab.run("stack", "export", "--show-secrets").out
    assert "s3cret" in exported
    (lab.root / "export.json").write_text(exported)
    lab.run("stack", "init", "dev2")
    refused = lab.run("stack", "import", "--file", str(lab.root / "export.json"), "-s", "dev2")
    assert "belongs to another stack than 'dev2'" in refused.err
    lab.run("stack", "rm", "--yes", "--force", "dev")
    lab.run("stack", "init", "dev")
    assert lab.run("stack", "import", "--file", str(lab.root / "export.json")).status == 0
    assert "s3cret" not in json.dumps(lab.state())
    assert "unchanged" in lab.up()
    assert lab.journal() == []
