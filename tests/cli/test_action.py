"""action.yml: its steps as a runner's shell runs them. That what it installs is enough: test_extras.py."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from normbench import imports
from normbench.judge import ci
from normbench.papers import published

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
BASH = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail"]  # GitHub's `shell: bash`
PYTHON = """#!/usr/bin/env bash
# python3 -m venv FOLDER: whose python -I -m pip, and -I -m normbench, are those of the test
echo "python $*" >>"$CALLS"
mkdir -p "$3/bin" && cp "$STUBS/inner" "$3/bin/python"
"""
INNER = """#!/usr/bin/env bash
[ "$1 $2" = "-I -m" ] || exit 9
program=$3
shift 3
exec "$STUBS/$program" "$@"
"""
PIP = '#!/usr/bin/env bash\necho "pip $*" >>"$CALLS"\n'
NORMBENCH = """#!/usr/bin/env bash
printf 'normbench %s\\n' "$*" >>"$CALLS"
echo "results=${NORMBENCH_RESULTS:-}" >>"$CALLS"
[ "$1" = import ] && { [ "${IMPORTED:-0}" = 0 ] || echo "normbench: logs has no log." >&2; exit "${IMPORTED:-0}"; }
[ -n "${PRINTED:-}" ] && printf '%b' "$PRINTED"
while [ $# -gt 0 ]; do
    case "$1" in
        --markdown) printf '%s' "$MARKDOWN" >"$2" ;;
    esac
    shift
done
exit "$JUDGED"
"""
GH = """#!/usr/bin/env bash
# answers with the comments of the test, through jq as gh does; refuses what writes if READ_ONLY is set
echo "gh $*" >>"$CALLS"
last=${@: -1}
case "$*" in
    *--method*)
        [ -z "${READ_ONLY:-}" ] || { echo "gh: Resource not accessible by integration (HTTP 403)" >&2; exit 1; }
        cp "${last#body=@}" "$BODY" ;;
    *) jq -r "$last" <"$COMMENTS" ;;
esac
"""
MARKDOWN = "<!-- normbench judge ci/claims.yaml -->\n### ci/claims.yaml\n\n| claim |\n"


class Runner:
    """A job: the steps of the action one after another, each until the first that fails."""

    def __init__(self, folder: Path, **inputs: str) -> None:
        self.folder, self.outputs, self.logs = folder, {}, {}
        self.inputs = {name: str(node.get("default", "")) for name, node in ACTION["inputs"].items()}
        self.inputs |= {"github-token": "secret", "claims": "ci/claims.yaml"}
        self.inputs |= {name.replace("_", "-"): value for name, value in inputs.items()}
        assert self.inputs.keys() == ACTION["inputs"].keys()
        self.stubs = folder / "stubs"
        self.stubs.mkdir()
        for name, text in {"python3": PYTHON, "inner": INNER, "pip": PIP, "normbench": NORMBENCH, "gh": GH}.items():
            (self.stubs / name).write_text(text)
            (self.stubs / name).chmod(0o755)
        (folder / "comments.json").write_text("[]")
        self.environment = {
            "PATH": f"{self.stubs}:{os.environ['PATH']}",
            "STUBS": str(self.stubs),
            **{name: str(folder / name) for name in ("CALLS", "BODY", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")},
            **{"COMMENTS": str(folder / "comments.json"), "RUNNER_TEMP": str(folder / "runner temp")},
            **{"GITHUB_ACTION_PATH": str(ROOT), "GITHUB_REPOSITORY": "us/ours", "MARKDOWN": MARKDOWN, "JUDGED": "0"},
        }
        (folder / "runner temp").mkdir()

    def filled(self, text: str) -> str:
        """An expression of GitHub's, of the three kinds that the action has."""

        def value(found: re.Match[str]) -> str:
            kind, _, name = found[1].partition(".")
            if kind == "steps":
                return self.outputs.get(name.rpartition(".")[2], "")
            return self.inputs[name] if kind == "inputs" else {"event.pull_request.number": self.number}[name]

        return re.sub(r"\$\{\{ (\S+) \}\}", value, text)

    def run(self, number: str = "7", **environment: str) -> subprocess.CompletedProcess[str]:
        """The last step's end. number: of the pull request."""
        self.number = number
        for step in ACTION["runs"]["steps"]:
            assert step["shell"] == "bash" and "${{" not in step["run"], "an input would be a part of the script"
            given = {name: self.filled(text) for name, text in step.get("env", {}).items()}
            done = subprocess.run(
                [*BASH, "-c", step["run"]],
                cwd=self.folder,
                env=self.environment | environment | given,
                capture_output=True,
                text=True,
            )
            if self.folder.joinpath("GITHUB_OUTPUT").exists():
                lines = self.folder.joinpath("GITHUB_OUTPUT").read_text().splitlines()
                self.outputs = dict(line.split("=", 1) for line in lines)
            self.logs[step["name"]] = done.stdout + done.stderr
            if done.returncode:
                break
        self.last = step["name"]
        return done

    @property
    def calls(self) -> list[str]:
        return (self.folder / "CALLS").read_text().splitlines()

    @property
    def summary(self) -> str:
        return (self.folder / "GITHUB_STEP_SUMMARY").read_text()


@pytest.mark.parametrize("code", [0, 2, 6])
def test_the_summary_is_always_written_and_the_judges_code_comes_last(code: int, tmp_path: Path) -> None:
    runner = Runner(tmp_path, runs="mine\n\nour runs\n")
    done = runner.run(number="", JUDGED=str(code))
    assert (done.returncode, runner.last) == (code, ACTION["runs"]["steps"][-1]["name"])
    assert runner.summary == MARKDOWN and runner.outputs["exit-code"] == str(code)
    (line,) = [call for call in runner.calls if call.startswith("normbench")]
    words = f"normbench judge --runs mine --runs our runs --fail-on {ci.GATE} --markdown "
    assert line == f"{words}{runner.outputs['markdown']} -- ci/claims.yaml"
    assert Path(runner.outputs["markdown"]).read_text() == MARKDOWN and set(ACTION["outputs"]) == set(runner.outputs)
    installed = [call for call in runner.calls if call.startswith("pip")]
    assert installed == [f"pip install --quiet {ROOT}"]
    assert not [call for call in runner.calls if call.startswith("gh")]


def test_logs_are_imported_into_a_folder_of_the_job(tmp_path: Path) -> None:
    runner = Runner(tmp_path, runs="logs/a b\n$(touch hacked)", import_as="ours", map="ci/map.yaml", fail_on="")
    assert runner.run(number="").returncode == 0 and not (tmp_path / "hacked").exists()
    first, results, second, same = [call for call in runner.calls if call.startswith(("normbench", "results"))]
    assert first == "normbench import --as ours --map ci/map.yaml --yes -- logs/a b $(touch hacked)"
    assert second.startswith("normbench judge --runs imported/ours --markdown")
    assert results == same and Path(results.removeprefix("results=")).is_relative_to(tmp_path / "runner temp")


@pytest.mark.skipif(not shutil.which("jq"), reason="no jq")
def test_a_failed_import_is_no_old_verdict(tmp_path: Path) -> None:
    runner = Runner(tmp_path, runs="logs", import_as="ours")
    assert runner.run(IMPORTED="2").returncode == 2 and runner.outputs["exit-code"] == "2"
    assert runner.summary.startswith(MARKDOWN.splitlines()[0]) and "exit code 2" in runner.summary
    assert "has no log" in runner.logs["Judge"] and "has no log" not in runner.summary, "a row of a file may be in it"
    assert (tmp_path / "BODY").read_text() == runner.summary
    assert not [call for call in runner.calls if call.startswith("normbench judge")]


def test_no_printed_line_is_a_command_of_the_runner(tmp_path: Path) -> None:
    """A statement or an arm that is wrapped to the start of a line: the runner reads no command before the token."""
    runner = Runner(tmp_path)
    runner.run(number="", PRINTED="  ::error::pwned\\n##[add-mask]x\\n::warning::pwned\\n::0000::\\nlast")
    lines = runner.logs["Judge"].splitlines()
    token = lines[0].removeprefix("::stop-commands::")
    end = lines.index(f"::{token}::")
    assert len(token) == 32 and lines.count(f"::{token}::") == 1
    assert {"  ::error::pwned", "##[add-mask]x", "last"} <= {*lines[1:end]}
    assert not [line for line in lines[end + 1 :] if "::" in line or "##" in line]


def test_a_file_that_is_called_like_an_option_is_a_file(tmp_path: Path) -> None:
    runner = Runner(tmp_path, claims="--help")
    assert runner.run(number="", MARKDOWN="").returncode == 2, "help, which ends with 0, is no verdict"
    (line,) = [call for call in runner.calls if call.startswith("normbench")]
    assert line.endswith(" -- --help") and "exit code 2" in runner.summary


@pytest.mark.skipif(not shutil.which("jq"), reason="no jq")
def test_one_comment_is_written_and_then_updated(tmp_path: Path) -> None:
    (first := tmp_path / "first").mkdir()
    runner = Runner(first)
    bot, person = {"user": {"type": "Bot"}}, {"user": {"type": "User"}}
    other = {"id": 1, "body": f"see {MARKDOWN}", **bot}
    (first / "comments.json").write_text(json.dumps([other]))
    assert runner.run(JUDGED="6").returncode == 6
    assert runner.calls[-1].startswith("gh api --silent --method POST repos/us/ours/issues/7/comments -F body=@")
    (second := tmp_path / "second").mkdir()
    runner = Runner(second)
    (second / "comments.json").write_text(
        json.dumps(
            [other, {"id": 9, "body": MARKDOWN, **person}, *({"id": k, "body": MARKDOWN, **bot} for k in (2, 3))]
        )
    )
    assert runner.run().returncode == 0
    assert runner.calls[-1].startswith("gh api --silent --method PATCH repos/us/ours/issues/comments/2 -F body=@")
    assert (second / "BODY").read_text() == MARKDOWN and "secret" not in "".join(runner.calls)


@pytest.mark.skipif(not shutil.which("jq"), reason="no jq")
@pytest.mark.parametrize("code", [0, 6])
def test_a_token_that_may_not_write_fails_no_job(code: int, tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    assert runner.run(JUDGED=str(code), READ_ONLY="1").returncode == code and not (tmp_path / "BODY").exists()
    (tmp_path / "quiet").mkdir()
    quiet = Runner(tmp_path / "quiet", comment_on_pull_request="false")
    assert quiet.run().returncode == 0 and not [call for call in quiet.calls if call.startswith("gh")]


def test_the_action_takes_no_action_of_others_and_no_rights() -> None:
    assert not [step for step in ACTION["runs"]["steps"] if "uses" in step]
    names = [*ACTION["inputs"], *ACTION["outputs"]]
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)
    assert all(isinstance(node.get("default", ""), str) for node in ACTION["inputs"].values())


def test_the_page_uses_the_action_and_files_as_they_are(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "ci.md").read_text()
    workflow, claims, map_text, _ = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    steps = workflow["jobs"]["judge"]["steps"]
    (ours,) = [step for step in steps if step.get("uses", "").startswith("OWNER/normbench@")]
    assert ours["with"].keys() <= ACTION["inputs"].keys() and ACTION["inputs"]["fail-on"]["default"] in page
    others = [step["uses"] for step in steps if "uses" in step and step is not ours]
    assert others and all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", use) for use in others)
    (tmp_path / "map.yaml").write_text(yaml.safe_dump(map_text))
    labels = imports.read_map(tmp_path / "map.yaml").labels
    trained = re.findall(r"--logdir logs/(\S+)", next(step["run"] for step in steps if "run" in step))
    found = {re.search(str(labels.arm.path), name.replace("$seed", "3"))[1] for name in trained}
    assert found == {cell["arm"] for _, cell in claims["claims"][0]["parts"][0]["contrast"]}
    (row,) = [line for line in page.splitlines() if line.startswith("| LN-")]
    verdicts = published.read_verdicts(ROOT / "results" / "ln2016" / "fig6" / "paper" / "verdicts.json")
    assert row in ci.markdown("ln2016/fig6", [ci.Judged("ln2016/fig6", verdicts.claims)], []).splitlines()
    assert all(f"`{word}`" in page for word in ci.WORDS)
