# SPDX-License-Identifier: Apache-2.0
"""What the library never does, and what no file of the repository says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tree import ROOT, TEXT, code_of, files, place, write

# ---------------------------------------------------------------------------------------------
# The library never prints, ends the process, reads the environment or asserts on input

NEVER = {
    "prints": re.compile(r"std::(cout|cerr|clog)|\b(f?printf|v?fprintf|f?puts|putchar|perror)\s*\(|fmt::print"),
    "ends the process": re.compile(r"(?<![\w.>])(?:std::)?(exit|_exit|quick_exit|abort|terminate)\s*\("),
    "reads the environment": re.compile(r"\b(secure_)?getenv\s*\(|\benviron\b"),
    "asserts on input (throw, or say `// invariant: ...`)": re.compile(r"\b(HWY_)?(assert|ASSERT)\s*\("),
}


def never_done(root: Path) -> list[str]:
    found = []
    for path in files(root, "src"):
        text = path.read_text()
        raw = text.splitlines()
        for number, line in enumerate(code_of(text).splitlines(), 1):
            for what, pattern in NEVER.items():
                if pattern.search(line) and not ("asserts" in what and "// invariant: " in raw[number - 1]):
                    found.append(f"{place(root, path, number)}: {what}")
    return found


def test_the_library_is_silent() -> None:
    assert never_done(ROOT) == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('std::cerr << "x";', "prints"),
        ('fprintf(stderr, "x");', "prints"),
        ("std::exit(1);", "ends the process"),
        ("abort();", "ends the process"),
        ('const char* x = std::getenv("X");', "reads the environment"),
        ("assert(rows > 0);", "asserts on input"),
    ],
)
def test_a_seeded_call_is_found(tmp_path: Path, line: str, said: str) -> None:
    write(tmp_path, "src/core/a.cc", f"// exit(1), printf\nvoid f() {{ {line} }}\n")
    assert [said in text and "a.cc:2" in text for text in never_done(tmp_path)] == [True]


def test_words_in_comments_and_strings_are_no_calls(tmp_path: Path) -> None:
    text = '// printf("x") /* */\nconst char* a = "std::cout << exit(1)";\nassert(n > 0);  // invariant: n counts\n'
    write(tmp_path, "src/core/a.cc", text)
    assert never_done(tmp_path) == []


# ---------------------------------------------------------------------------------------------
# No mutable globals

# A handler of signals has nothing else to write to; the line says so.
HANDLER = "// a signal handler reaches nothing else"

STATEMENT = re.compile(r"[^;{}]*[;{}]")
HARMLESS = re.compile(
    r"^(using|typedef|namespace|template|struct|class|enum|union|friend|static_assert|extern|concept|public|private)\b"
)


def mutable_globals(root: Path) -> list[str]:
    found = []
    for path in files(root, "src", "include", "cli"):
        raw = path.read_text().splitlines()
        code = re.sub(
            r"^\s*#(?:[^\n\\]|\\\n|\\.)*",
            lambda m: "\n" * m.group(0).count("\n"),
            code_of(path.read_text()),
            flags=re.M,
        )
        for match in re.finditer(r"\b(static|thread_local)\b(?P<rest>[^;{}]*)[;{=]", code):
            rest = match.group("rest")
            if match.group(1) == "static" and re.search(r"\bconst\b|\bconstexpr\b|\(", rest):
                continue  # a constant, or a function
            line = code.count("\n", 0, match.start()) + 1
            if "std::atomic" in rest and HANDLER in raw[line - 1]:
                continue
            found.append(f"{place(root, path, line)}: static mutable state")
        found += [f"{place(root, path, line)}: mutable global" for line in namespace_variables(code)]
    return found


def namespace_variables(code: str) -> list[int]:
    """Lines of variables at namespace scope that are neither const nor constexpr."""
    lines: list[int] = []
    stack: list[bool] = []  # of open braces: is it a namespace
    depth_of_code = 0
    for match in STATEMENT.finditer(code):
        text, end = match.group(0)[:-1].strip(), match.group(0)[-1]
        line = code.count("\n", 0, match.start() + len(match.group(0)) - len(match.group(0).lstrip())) + 1
        at_namespace = depth_of_code == 0
        if end == "}":
            if stack and not stack.pop():
                depth_of_code -= 1
            continue
        plain = re.sub(r"\[\[.*?\]\]|HWY_\w+\s*(\([^)]*\))?", "", text).strip()
        is_variable = (
            plain != ""
            and not HARMLESS.match(plain)
            and not re.search(r"\bconst\b|\bconstexpr\b|\boperator\b", plain)
            and "(" not in plain.split("=")[0]
            and re.match(r"^[\w:<>,\s*&\[\].]+$", plain.split("=")[0]) is not None
            and re.search(r"[\w>*&\]]\s+[\w:]+(\[\w*\])?\s*$", plain.split("=")[0]) is not None
        )
        if at_namespace and is_variable:
            lines.append(line)
        if end == "{":
            is_namespace = re.match(r"^(inline\s+)?namespace\b|^extern\b", text) is not None
            stack.append(is_namespace)
            depth_of_code += not is_namespace
    return lines


def test_no_mutable_globals() -> None:
    assert mutable_globals(ROOT) == []


@pytest.mark.parametrize(
    "line",
    ["int counter = 0;", "static int counter;", "std::vector<int> seen{};", "inline double scale = 2;",
     "thread_local int depth = 0;", "int f() { static int calls = 0; return ++calls; }"],
)  # fmt: skip
def test_a_seeded_global_is_found(tmp_path: Path, line: str) -> None:
    write(tmp_path, "src/core/a.cc", f"namespace locant {{\nnamespace {{\n{line}\n}}\n}}\n")
    assert {text.split(": ")[0] for text in mutable_globals(tmp_path)} == {"src/core/a.cc:3"}


def test_constants_functions_and_members_pass(tmp_path: Path) -> None:
    text = """namespace locant {
struct A { int member = 0; static A make(int x); };
constexpr int kOne = 1;
inline constexpr std::array<int, 2> kTwo = {1, 2};
int f(int x) { int local = x; static const int kTable[] = {1}; return local + kTable[0]; }
enum class E { a, b };
}
"""
    write(tmp_path, "src/core/a.cc", text)
    assert mutable_globals(tmp_path) == []


# ---------------------------------------------------------------------------------------------
# Tolerances come from budgets.json

FRACTION = r"(?<![\w.])(?:\d+\.\d*|\.\d+|\d+)[eE]-\d+|(?<![\w.])0?\.\d*[1-9]\d*"
COMPARES = re.compile(
    r"\b(EXPECT|ASSERT)_(NEAR|LE|LT)\s*\(|\bassert\b[^\n]*<|\b(atol|rtol|abs_tol|rel_tol|rel|abs)\s*="
)


def literal_tolerances(root: Path) -> list[str]:
    found = []
    for path in files(root, "tests", endings=(".cc", ".h", ".py")):
        if "structure" in path.parts:
            continue
        text = path.read_text() if path.suffix == ".py" else code_of(path.read_text())
        for match in COMPARES.finditer(text):
            statement = last_argument(text, match)
            if re.search(FRACTION, statement):
                found.append(f"{place(root, path, text.count(chr(10), 0, match.start()) + 1)}: literal tolerance")
    return found


def last_argument(text: str, match: re.Match[str]) -> str:
    """What a comparison allows: the last argument of a macro, what stands after the last < of an assert."""
    if not match.group(0).endswith("("):
        line = text[match.start() :].split("\n", 1)[0]
        return (
            re.split(r"[,)]", text[match.end() :].split("\n", 1)[0])[0]
            if "=" in match.group(0)
            else line.rsplit("<", 1)[1]
        )
    depth, start = 1, match.end()
    for at in range(match.end(), len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0:
            return text[start:at]
        if depth == 1 and text[at] == ",":
            start = at + 1
    return ""


def test_no_literal_tolerance() -> None:
    assert literal_tolerances(ROOT) == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("tests/ops/a_test.cc", "EXPECT_NEAR(f(1, 2), 3.0,\n            1e-6);"),
        ("tests/ops/a_test.cc", "EXPECT_LE(error, 0.001);"),
        ("tests/conformance/a_test.py", "assert abs(a - b) < 1e-5"),
        ("tests/conformance/a_test.py", "assert np.allclose(a, b, rtol=1e-5)"),
    ],
)
def test_a_seeded_tolerance_is_found(tmp_path: Path, name: str, line: str) -> None:
    write(tmp_path, name, "\n" + line + "\n")
    assert literal_tolerances(tmp_path) == [f"{name}:2: literal tolerance"]


def test_budgets_pass(tmp_path: Path) -> None:
    write(tmp_path, "tests/ops/a_test.cc", "EXPECT_NEAR(x, 1e-3, budgets::kRotateF32 * 2);\nEXPECT_LT(a, 5);\n")
    write(tmp_path, "tests/conformance/a_test.py", 'assert x < budget("rotate")\nnp.allclose(a, b, atol=limit)\n')
    assert literal_tolerances(tmp_path) == []


# ---------------------------------------------------------------------------------------------
# Public API: no boolean parameters

BOOLEAN = re.compile(r"[(,]\s*(?:const\s+)?bool\b(?!\s*\()")


def boolean_parameters(root: Path) -> list[str]:
    found = []
    for path in files(root, "include"):
        code = code_of(path.read_text())
        for match in BOOLEAN.finditer(code):
            found.append(f"{place(root, path, code.count(chr(10), 0, match.start()) + 1)}: boolean parameter")
    return found


def test_no_boolean_parameters() -> None:
    assert boolean_parameters(ROOT) == []


def test_a_seeded_boolean_parameter_is_found(tmp_path: Path) -> None:
    write(tmp_path, "include/locant/a.h", "bool f(int x);  // (bool y)\nvoid g(int x, bool fast);\n")
    assert boolean_parameters(tmp_path) == ["include/locant/a.h:2: boolean parameter"]


# ---------------------------------------------------------------------------------------------
# Every C++ file: licence line; every text file: the project speaks of the project alone

SPDX = "// SPDX-License-Identifier: Apache-2.0"
# spelled in pieces so that this file does not hold them
ELSEWHERE = re.compile(
    "|".join(
        [
            r"(?<![\w.])/" + r"work/\w",
            r"(?<![\w.])/" + r"root/\w",
            r"(?<![\w.])/" + r"home/\w",
            r"(?<![\w.])/" + r"tmp/(build|brief|bash)",
            r"/opt/" + r"(pypi|wheels)",
            r"\." + r"library\b",
            r"session (time )?" + r"limit",
            r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b",
            r"\bthe C" + r"EO\b",
            r"\b(this|the) work" + r"place\b",
            r"\bmy bri" + r"ef\b",
        ]
    )
)


def unlicensed(root: Path) -> list[str]:
    return [
        place(root, path)
        for path in files(root, "src", "include", "cli", "examples", "tests", "bench", "fuzz", "python")
        if not path.read_text().startswith(SPDX + "\n")
    ]


def betrayals(root: Path) -> list[str]:
    found = []
    for path in files(root, endings=TEXT):
        if path.stat().st_size > 1_000_000:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            match = ELSEWHERE.search(line)
            if match:
                found.append(f"{place(root, path, number)}: {match.group(0)}")
    return found


def test_every_source_names_its_licence() -> None:
    assert unlicensed(ROOT) == []


def test_the_project_speaks_of_the_project_alone() -> None:
    assert betrayals(ROOT) == []


def test_seeded_licence_and_words_are_found(tmp_path: Path) -> None:
    write(tmp_path, "src/core/a.cc", "int x();\n")
    write(tmp_path, "docs/a.md", "fine\nread /wo" + "rk/notes first\n")
    write(tmp_path, "tools/a.py", "x = 1  # TO" + "DO later\n")
    assert unlicensed(tmp_path) == ["src/core/a.cc"]
    assert [text.split(": ")[0] for text in betrayals(tmp_path)] == ["docs/a.md:2", "tools/a.py:1"]
