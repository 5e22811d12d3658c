import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3s_standin.cli import read_flags, start_annotations
from k3s_standin.configfile import load
from k3s_standin.configfile import parse as parse_file
from k3s_standin.errors import UsageError
from k3s_standin.flags import FLAGS, parse

PLAIN = st.text(st.characters(categories=("L", "N"), include_characters="-./:=_"), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--disable=a,b", "--disable", "c"], "disable", ["a", "b", "c"]),
        (["--disable-cloud-controller"], "disable-cloud-controller", True),
        (["--cluster-cidr", "10.244.0.0/16"], "cluster-cidr", ["10.244.0.0/16"]),
        (["--docker=false"], "docker", False),
        (["--kubelet-arg=eviction-hard=a<1%,b<2%", "--kubelet-arg", "v=4"], "kubelet-arg",
         ["eviction-hard=a<1%,b<2%", "v=4"]),
        (["--node-label=b=2"], "node-label", ["a=1", "b=2"]),
    ],
)  # fmt: skip
def test_values_of_flags(words, name, value):
    parsed = parse("server", words, settings={"node-label": ["a=1"]})
    assert (parsed.values[name], parsed.warnings) == (value, ())


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--nonsense"], "unknown flag --nonsense"),
        (["--token"], "--token needs a value"),
        (["word"], "unexpected argument 'word'"),
        (["--cluster-cidr=1"], "has no flag --cluster-cidr, but k3s server has"),
        (["--docker"], "--docker is not supported, because the stand-in runs containerd"),
        (["--debug=perhaps"], "--debug: the value must be true or false"),
        (["--debug=tRUE"], "--debug: the value must be true or false"),
    ],
)
def test_unknown_flags_of_an_agent(words, text):
    with pytest.raises(UsageError, match=text):
        parse("agent", words)


def test_a_flag_without_effect_is_named_once():
    assert parse("agent", ["--debug", "--debug"]).warnings == (
        "--debug has no effect in the stand-in for k3s",
    )


def test_precedence_of_flags_environment_and_file():
    given = parse(
        "agent",
        ["--node-name=flag"],
        variables={"K3S_NODE_NAME": "variable", "K3S_URL": "variable", "K3S_TOKEN": ""},
        settings={"node-name": "file", "server": "file", "token": "file"},
    )
    assert given.values == {"node-name": "flag", "server": "variable", "token": "file"}


@pytest.mark.parametrize("command", ["server", "agent", "etcd-snapshot"])
def test_refused_variables(command):
    flags = [flag for flag in FLAGS if command in flag.commands and flag.refusal and flag.variable]
    assert "K3S_DATA_DIR" in {flag.variable for flag in flags}
    for flag in flags:
        with pytest.raises(UsageError, match=f"{flag.variable}: flag --{flag.name} is not supported"):
            parse(command, [], variables={flag.variable: "secret"})


def test_variables_of_k3s(tmp_path):
    assert parse("agent", [], variables={"K3S_LB_SERVER_PORT": "7000"}).values["lb-server-port"] == "7000"
    (tmp_path / "mine.yaml").write_text("etcd-snapshot-retention: 7\n")
    read = read_flags("etcd-snapshot", ["ls"], {"K3S_CONFIG_FILE": str(tmp_path / "mine.yaml")})
    assert read.values["etcd-snapshot-retention"] == "7"


@given(st.sampled_from(FLAGS), PLAIN)
def test_both_notations_of_a_flag_mean_the_same(flag, text):
    if flag.refusal or flag.kind == "switch":
        return
    command = flag.commands[0]
    assert parse(command, [f"--{flag.name}={text}"]) == parse(command, [f"--{flag.name}", text])


@given(st.lists(st.text(max_size=12), max_size=6))
def test_any_command_line_is_parsed_or_refused(words):
    with suppress(UsageError):
        parse("server", words)


def test_a_configuration_file_has_texts_switches_and_lists():
    text = """
---
# comment
node-name: "a#b"   # not a comment inside quotes
debug: true
tls-san:
  - one
  - 'two'   # comment
disable: [traefik, "servicelb"]
node-label: []
node-taint:
write-kubeconfig-mode: "0644"
bind-address: >-
  192.0.2.1
"""
    assert parse_file(text) == {
        "node-name": "a#b",
        "debug": True,
        "tls-san": ["one", "two"],
        "disable": ["traefik", "servicelb"],
        "node-label": [],
        "node-taint": [],
        "write-kubeconfig-mode": "0644",
        "bind-address": "192.0.2.1",
    }
    assert parse_file("# nothing") == {}


def test_values_without_quotes():
    text = "a: yes\nb: Off\nc: 0644\nd: 1_000\ne: 1.10\nf: 22:22\ng: 2026-01-31\nh: [on, 010, ~]\ni: '0644'"
    assert parse_file(text) == {
        "a": True,
        "b": False,
        "c": "420",
        "d": "1000",
        "e": "1.10",
        "f": "22:22",
        "g": "2026-01-31",
        "h": ["true", "8", ""],
        "i": "0644",
    }


def test_annotations_omit_ignored_settings(tmp_path):
    (tmp_path / "config.yaml").write_text("tokne: s3cret\ncluster-secret: s3cret\nt: s3cret\ndebug: true\n")
    words = ["--config", str(tmp_path / "config.yaml")]
    shown = json.loads(start_annotations("server", words, {})["k3s.io/node-args"])
    assert shown == ["server", "-t", "********", "--debug", "true", *words]


def test_unknown_settings_of_a_file(tmp_path):
    (tmp_path / "config.yaml").write_text("nonsense: 1\nt: secret\nserver:\ndebug: false\n")
    given = read_flags("server", ["--config", str(tmp_path / "config.yaml")], {})
    read = {name: value for name, value in given.values.items() if name != "config"}
    assert read == {"token": "secret", "server": "", "debug": False}
    assert "Unknown flag --nonsense found in config.yaml, skipping" in given.warnings
    with pytest.raises(UsageError, match="unknown flag --nonsense in the configuration file"):
        read_flags("agent", ["--config", str(tmp_path / "config.yaml")], {})
    with pytest.raises(UsageError, match="flag --advertise-port is not supported"):
        parse("server", [], settings={"advertise-port": "443"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\na: 2", "line 2: a occurs twice"),
        ("a: {b: 1}", "line 1: the value must be a string"),
        ("a:\n  b: 1", "line 2: the value must be a string"),
        ("a: [b, [c]]", "line 1: the value must be a string"),
        ("- a", "line 1: not `name: value`"),
        ("\na: b: c", "line 2: mapping values"),
        ('a: "b', "line 1: .*quoted scalar"),
        ("a: [b", "line 1: .*flow sequence"),
        ("[" * 1_000, "line 1: maximum recursion depth"),
        ("a: \0", "line 1: .*special characters"),
    ],
)
def test_errors_of_a_file_name_the_file_and_the_line(tmp_path, text, words):
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(UsageError, match=rf"config\.yaml: {words}"):
        load(tmp_path / "config.yaml")


def test_the_folder_of_further_files_is_read_in_order(tmp_path):
    (tmp_path / "config.yaml").write_text("node-name: a\ntls-san: [one]")
    (tmp_path / "config.yaml.d").mkdir()
    (tmp_path / "config.yaml.d" / "2.yaml").write_text("tls-san+: [three]")
    (tmp_path / "config.yaml.d" / "1.YML").write_text("node-name: b\ntls-san+:\n- two")
    (tmp_path / "config.yaml.d" / "3.yaml.old").write_text("node-name: c")
    (tmp_path / "config.yaml.d" / "4.yml").mkdir()
    assert load(tmp_path / "config.yaml") == {"node-name": "b", "tls-san": ["one", "two", "three"]}
    assert load(tmp_path / "missing.yaml") == {}
