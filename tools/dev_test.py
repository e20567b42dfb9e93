"""The parts of `./dev test`, and the summary of what passed, failed and was skipped, with the reasons."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import bench_counts
import dev_models
import dev_peers
import dev_python
from dev_reports import Outcome, read_gtest, read_junit
from dev_system import Stop


@dataclass(frozen=True)
class Options:
    full: bool
    data: Path | None  # folder of real checkpoints, where there is one
    data_option: str  # as the user named it; "" lets CMake look for ../shared/data
    only: tuple[str, ...]


@dataclass(frozen=True)
class Context:
    root: Path
    options: Options
    build: Callable[..., Path]  # a preset, and targets of it

    def environment(self) -> dict[str, str]:
        env = {**os.environ, "LOCANT_BIN": str(self.root / "build" / "locant"), "PYTHONDONTWRITEBYTECODE": "1"}
        env.setdefault("LOCANT_PACKAGED_MODELS", str(dev_models.folder(self.root)))
        if self.options.full:
            env["LOCANT_FULL"] = "1"
        if self.options.data:
            env["LOCANT_DATA"] = str(self.options.data)
        if dev_peers.python(self.root).exists():
            env["LOCANT_PEERS"] = str(dev_peers.python(self.root))
        return env


def parse(arguments: list[str], root: Path) -> Options:
    parser = argparse.ArgumentParser(prog="./dev test", allow_abbrev=False)
    parser.add_argument("--full", action="store_true", help="every long test, and everything under clang 14")
    parser.add_argument("--data", type=Path, help="folder of real checkpoints (default: ../shared/data)")
    parser.add_argument("--peers", action="store_true", help="nothing but the recipes against the live runtimes")
    choices = [*PARTS, *FULL_PARTS, *PEER_PARTS]
    parser.add_argument("--only", action="append", default=[], choices=choices, help="one part (again for more)")
    given = parser.parse_args(arguments)
    if given.peers:
        given.only += list(PEER_PARTS)
    data = given.data.resolve() if given.data else (root / ".." / "shared" / "data").resolve()
    if given.data and not data.is_dir():
        raise Stop(f"test --data: {given.data} is no folder")
    return Options(given.full, data if data.is_dir() else None, str(data) if given.data else "", tuple(given.only))


# ---------------------------------------------------------------------------------------------
# Running commands and test programs


def command(arguments: list[str], context: Context, **env: str) -> tuple[int, str]:
    done = subprocess.run(
        arguments, cwd=context.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        env={**context.environment(), **env},
    )  # fmt: skip
    return done.returncode, done.stdout


def check(arguments: list[str], context: Context) -> Outcome:
    """One command that passes or fails as a whole."""
    status, text = command(arguments, context)
    return Outcome(passed=int(status == 0), failed=int(status != 0), output=text if status else "")


def ctest(preset: str, context: Context) -> Outcome:
    """Builds a preset and runs its tests; GoogleTest programs count by test case."""
    try:
        folder = context.build(preset)
    except subprocess.CalledProcessError as failed:
        return Outcome(failed=1, output=f"the {preset} build ended with status {failed.returncode}\n")
    reports = folder / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    jobs, junit = str(os.cpu_count() or 1), reports / "ctest.junit"
    arguments = ["ctest", "--test-dir", str(folder), "-j", jobs, "--output-on-failure", "--output-junit", str(junit)]
    status, text = command(arguments, context, GTEST_OUTPUT=f"xml:{reports}/")
    found = Outcome(output=text if status else "")
    for name, result, reason in read_junit(junit) if junit.exists() else []:
        report = reports / f"test_{name}.xml"
        inside = read_gtest(report) if report.exists() else Outcome()
        found.add(inside)
        if result == "failed" and inside.failed == 0:
            found.failed += 1
        elif result == "skipped":
            found.skipped[reason or "not run"] += 1
        elif not report.exists():
            found.passed += 1
    if status != 0 and found.failed == 0:
        found.failed = 1
    if found.passed + found.failed == 0:
        found = Outcome(failed=1, output=text + "no test ran\n")
    return found


def threads(context: Context) -> Outcome:
    """What runs on several threads, under ThreadSanitizer: the pool, with --full whole operations and models."""
    programs = ["test_core", *(["test_ops", "test_model"] if context.options.full else [])]
    try:
        folder = context.build("tsan", *programs)
    except subprocess.CalledProcessError as failed:
        return Outcome(failed=1, output=f"the tsan build ended with status {failed.returncode}\n")
    found = Outcome()
    for program in programs:
        found.add(run_gtest(folder / program, context))
    return found


def targets(context: Context) -> Outcome:
    """Every instruction set of this CPU but the best, forced: operations and models, with --full real files too."""
    folder = context.build("release")
    _, text = command([str(folder / "locant"), "--version", "--verbose"], context)
    line = re.search(r"^instruction sets: (.*) \(", text, re.M)
    found = Outcome()
    for target in line[1].split(", ")[1:] if line else []:
        for program in ("test_ops", "test_model"):
            found.add(run_gtest(folder / program, context, LOCANT_TARGET=target))
        if context.options.full:
            found.add(conformance(context, target))
    return found if line else Outcome(failed=1, output=text)


def run_gtest(program: Path, context: Context, **env: str) -> Outcome:
    report = program.parent / "reports" / f"{program.name}.xml"
    report.unlink(missing_ok=True)
    status, text = command([str(program)], context, GTEST_OUTPUT=f"xml:{report}", **env)
    found = read_gtest(report) if report.exists() else Outcome(failed=1)
    found.failed = max(found.failed, int(status != 0))
    found.output = text if status else ""
    return found


def pytest(context: Context, *arguments: str, executable: Path | None = None, target: str = "") -> Outcome:
    report = context.root / "build" / "reports" / "pytest.junit"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    start = [str(executable or dev_python.python(context.root)), "-m", "pytest", "-q", "--junitxml", str(report)]
    status, text = command([*start, *arguments], context, LOCANT_TARGET=target)
    found = Outcome(output=text if status else "")
    for _, result, reason in read_junit(report) if report.exists() else []:
        found.passed += result == "passed"
        found.failed += result == "failed"
        if result == "skipped":
            found.skipped[reason or "no reason given"] += 1
    if status != 0 and found.failed == 0:
        found.failed = 1
    return found


# ---------------------------------------------------------------------------------------------
# Formatters and linters


def sources(root: Path, *endings: str) -> list[str]:
    """Files that git knows or would take, by ending."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, stdout=subprocess.PIPE, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    return sorted({name for name in listed if name.endswith(endings) and (root / name).is_file()})


def python_sources(root: Path) -> list[str]:
    return [*sources(root, ".py"), "dev"]


def clang_format(root: Path, check_only: bool) -> str:
    """Formats the C++ files, or names those that are not."""
    mode = ["--dry-run", "--Werror"] if check_only else ["-i"]
    done = subprocess.run(
        ["clang-format-14", *mode, *sources(root, ".cc", ".h")], cwd=root, stderr=subprocess.PIPE, text=True
    )
    files = sorted({line.split(":")[0] for line in done.stderr.splitlines() if "clang-format-violations" in line})
    if done.returncode and not files:
        return done.stderr
    return "".join(f"not formatted (./dev format): {name}\n" for name in files)


def ruff_format(root: Path, check_only: bool) -> str:
    """Formats the Python files and sorts their imports, or names those that are not formatted."""
    ruff, files = str(root / ".venv" / "bin" / "ruff"), python_sources(root)
    if not check_only:
        subprocess.run([ruff, "check", "-q", "--select", "I", "--fix", *files], cwd=root, check=True)
        return subprocess.run([ruff, "format", "-q", *files], cwd=root, stderr=subprocess.PIPE, text=True).stderr
    command = [ruff, "format", "--check", *files]
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    named = [line.removeprefix("Would reformat: ") for line in done.stdout.splitlines() if "Would reformat" in line]
    if done.returncode and not named:
        return done.stdout
    return "".join(f"not formatted (./dev format): {name}\n" for name in named)


def formatting(context: Context) -> Outcome:
    found = Outcome()
    tools = {"clang-format-14": clang_format, str(context.root / ".venv" / "bin" / "ruff"): ruff_format}
    for tool, form in tools.items():
        if shutil.which(tool) is None:
            found.skipped[f"{tool} is not here"] += 1
            continue
        text = form(context.root, True)
        found.add(Outcome(passed=int(not text), failed=int(bool(text)), output=text))
    return found


def lint(context: Context) -> Outcome:
    folder = context.root / ".venv" / "bin"
    found = check(
        [str(folder / "ruff"), "check", "-q", "--output-format", "concise", *python_sources(context.root)], context
    )
    found.add(check([str(folder / "mypy")], context))
    return found


def changed(root: Path) -> set[str]:
    """Files that differ from the last commit but one (from nothing, where there is none), and new files."""

    def git(*arguments: str) -> list[str]:
        done = subprocess.run(
            ["git", *arguments], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        return done.stdout.splitlines() if done.returncode == 0 else []

    before = git("rev-parse", "--verify", "HEAD~1")
    if not before:
        return set(sources(root, ".cc", ".h"))
    return set(git("diff", "--name-only", before[0])) | set(git("ls-files", "--others", "--exclude-standard"))


def tidy_files(root: Path, everything: bool) -> list[str]:
    """Sources for clang-tidy: all, or those that changed or include a header that changed."""
    files = [name for name in sources(root, ".cc") if name.startswith(("src/", "cli/", "examples/", "python/"))]
    if everything:
        return files
    touched = changed(root)
    headers = [re.sub(r"^(include|src)/", "", name) for name in touched if name.endswith(".h")]
    return [f for f in files if f in touched or any(f'"{h}"' in (root / f).read_text() for h in headers)]


def clang_tidy(context: Context) -> Outcome:
    if shutil.which("clang-tidy-14") is None:
        return Outcome(skipped=Counter({"clang-tidy-14 is not here": 1}))
    folder = context.build("release")

    def one(name: str) -> Outcome:
        done = check(["clang-tidy-14", "--quiet", "-p", str(folder), name], context)
        done.output = "\n".join(line for line in done.output.splitlines() if "warnings generated" not in line)
        return done

    found = Outcome()
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        for outcome in workers.map(one, tidy_files(context.root, context.options.full)):
            found.add(outcome)
    return found


# ---------------------------------------------------------------------------------------------
# Parts


def conformance(context: Context, target: str = "") -> Outcome:
    ignored = ["--ignore=tests/structure", "--ignore=tests/install", "--ignore=tests/peers"]
    return pytest(context, "-n", str(os.cpu_count() or 1), "tests", *ignored, target=target)


def package(context: Context) -> Outcome:
    """The Python package as the release build left it."""
    try:
        context.build("release")
    except subprocess.CalledProcessError as failed:
        return Outcome(failed=1, output=f"the release build ended with status {failed.returncode}\n")
    return pytest(context, "python/tests")


def structure(context: Context) -> Outcome:
    return pytest(context, "tests/structure", "tests/install/compare_output_test.py")


def golden(context: Context) -> Outcome:
    """Every generator of committed cases, asked whether it would write what is committed."""
    found = Outcome()
    for generator in sorted((context.root / "tests").glob("**/generate*.py")):
        if generator.name.startswith("generate_peer_"):
            continue  # the part `peers` asks them
        if "PUBLISHED" in generator.read_text() and not (context.root.parent / "shared" / "data").is_dir():
            found.add(Outcome(skipped=Counter({"published configs are not here": 1})))
            continue
        found.add(check([str(dev_python.python(context.root)), str(generator), "--check"], context))
    return found


def install(context: Context) -> Outcome:
    status, text = command([sys.executable, "tests/install/run.py"], context)
    passed, failed = len(re.findall(r"^ok ", text, re.M)), len(re.findall(r"^FAILED ", text, re.M))
    return Outcome(passed=passed, failed=max(failed, int(status != 0)), output=text if status else "")


def pip(context: Context) -> Outcome:
    status, text = command([str(dev_python.python(context.root)), "tests/install/pip_install.py"], context)
    passed, failed = len(re.findall(r"^ok ", text, re.M)), len(re.findall(r"^FAILED ", text, re.M))
    return Outcome(passed=passed, failed=max(failed, int(status != 0)), output=text if status else "")


def counts(context: Context) -> Outcome:
    program = context.build("release", "bench_counts") / "bench" / "bench_counts"
    found = bench_counts.check(program, context.root / bench_counts.FILE)
    skipped = Counter([found.skipped] if found.skipped else [])
    return Outcome(found.passed, found.failed, skipped, found.text if found.failed else "")


def peers(context: Context) -> Outcome:
    """The golden cases of every peer against the live package, and the tests that run peers alone."""
    missing = dev_peers.ensure(context.root)
    context.build("release")
    executable, found = dev_peers.python(context.root), Outcome()
    for peer in dev_peers.PEERS:
        if peer.name in missing:
            found.skipped[f"{peer.name}: {missing[peer.name]}"] += 1
            continue
        generator = context.root / "tests" / "cases" / f"generate_peer_{peer.name}.py"
        found.add(check([str(executable), str(generator), "--check"], context))
    quantised = context.root / "tests" / "check" / "generate_peer_quantised.py"
    found.add(check([str(executable), str(quantised), "--check"], context))
    found.add(pytest(context, "tests/peers", executable=executable))
    return found


def under_clang(context: Context) -> Outcome:
    if shutil.which("clang++-14") is None:
        return Outcome(skipped=Counter({"clang++-14 is not here": 1}))
    return ctest("clang", context)


PARTS: dict[str, Callable[[Context], Outcome]] = {
    "release": lambda context: ctest("release", context),
    "sanitizers": lambda context: ctest("asan", context),
    "threads": threads,
    "targets": targets,
    "python": conformance,
    "package": package,
    "structure": structure,
    "golden": golden,
    "counts": counts,
    "install": install,
    "format": formatting,
    "lint": lint,
    "tidy": clang_tidy,
}
PEER_PARTS: dict[str, Callable[[Context], Outcome]] = {"peers": peers}
FULL_PARTS: dict[str, Callable[[Context], Outcome]] = {"clang": under_clang, "pip": pip}


def main(options: Options, root: Path, build: Callable[..., Path]) -> int:
    context = Context(root, options, build)
    parts = {**PARTS, **(FULL_PARTS if options.full or options.only else {}), **(PEER_PARTS if options.only else {})}
    if options.only:
        parts = {name: parts[name] for name in parts if name in options.only}
    rows: list[tuple[str, Outcome, float]] = []
    for name, part in parts.items():
        print(f"== {name}", flush=True)
        began = time.monotonic()
        found = part(context)
        rows.append((name, found, time.monotonic() - began))
        if found.failed:
            print(found.output.rstrip(), flush=True)
    return summary(rows, options)


def summary(rows: list[tuple[str, Outcome, float]], options: Options) -> int:
    total = Outcome()
    print(f"\n{'part':<12} {'passed':>8} {'failed':>8} {'skipped':>8} {'time':>9}")
    for name, found, seconds in rows:
        skipped = sum(found.skipped.values())
        print(f"{name:<12} {found.passed:>8} {found.failed:>8} {skipped:>8} {seconds:>7.1f} s")
        total.add(Outcome(found.passed, found.failed, found.skipped))
    print(f"{'total':<12} {'':>26} {sum(row[2] for row in rows):>7.1f} s{' (--full)' if options.full else ''}\n")
    for reason, count in sorted(total.skipped.items()):
        print(f"{count} test{'s' if count > 1 else ''} skipped: {reason}")
    print(f"{total.passed} passed, {total.failed} failed, {sum(total.skipped.values())} skipped")
    return 1 if total.failed or not total.passed else 0
