# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs whose libc is not glibc, which the preloaded library would end."""
import os
import subprocess

import pytest


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """One linked with musl, which says hello and exits with 3."""
    program = tmp_path_factory.mktemp("foreign") / "hello"
    program.with_suffix(".c").write_text('#include <stdio.h>\nint main(void) { puts("hello"); return 3; }\n')
    subprocess.run(["musl-gcc", "-o", program, program.with_suffix(".c")], check=True, timeout=60)
    return program


def scripts(program, tmp_path, depth):
    """Scripts of scripts of it: the last one."""
    for i in range(depth):
        path = tmp_path / f"script{i}"
        path.write_text(f"#! {program} argument\n")
        path.chmod(0o755)
        program = path
    return program


def test_it_would_die(build, foreign):
    """Else there is no need for what follows."""
    env = os.environ | {"LD_PRELOAD": str(build / "src/agent/libspoor-ust.so")}
    run = subprocess.run([foreign], env=env, capture_output=True, text=True)
    assert run.returncode not in (0, 3) and not run.stdout


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_run(build, foreign, tmp_path, depth):
    """The command runs, whatever it is started through; one line says what is not, why, and what helps."""
    program = scripts(foreign, tmp_path, depth)
    run = subprocess.run([build / "spoor", "ust", "run", "-o", "t.spoor", "--", program], capture_output=True,
                         text=True, cwd=tmp_path, timeout=60)
    assert run.returncode == 3 and run.stdout == "hello\n", run
    said = [line for line in run.stderr.splitlines() if "ld-musl" in line]
    assert len(said) == 1 and str(program) in said[0] and "build it for glibc" in said[0], run.stderr


def test_record(build, foreign, tmp_path):
    run = subprocess.run([build / "spoor", "record", "--ust", "-o", "t.spoor", "--", foreign], capture_output=True,
                         text=True, cwd=tmp_path, timeout=60)
    assert run.returncode == 125 and not run.stdout and run.stderr.count("\n") == 1, run
    assert "ld-musl" in run.stderr and "leave --ust out" in run.stderr


@pytest.mark.parametrize("name, text", [
    ("endless", "#!{}\n"), ("empty", "#!\n"), ("blank", "#! \t \n"), ("cut", "#!"), ("long", "#!/" + "x" * 10000),
], ids=lambda v: v[:7].strip("#!/ \t\n"))
def test_scripts_that_are_none(build, tmp_path, name, text):
    """No loop, no crash: what executing them comes to (a shell takes some) is what comes of it."""
    path = tmp_path / name
    path.write_text(text.format(path))
    path.chmod(0o755)
    run = subprocess.run([build / "spoor", "ust", "run", "-o", "t.spoor", "--", path], capture_output=True, text=True,
                         cwd=tmp_path, timeout=60)
    assert 0 <= run.returncode < 128 and "ld-musl" not in run.stderr, run
