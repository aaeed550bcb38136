#!/usr/bin/env python3
"""Runs programs of the virtual CUDA runtime's tests on a GPU and NVIDIA's own runtime:

    gpu-cases.py BIN laws|interop|interpose [--json FILE] [--jobs N]

  laws       each test case of test_virtual_cuda_laws: the virtual runtime's promises, checked on
             the real runtime
  interop    programs that use Millrace's C interface, Thrust and cuda::mr
  interpose  programs without Millrace, on its allocator by `millrace run`; their results must be
             the same as alone

Each case is a separate process with a time limit. Prints the failed cases with the end of their
output, and the skipped cases with the reason: laws that only the virtual runtime has, or that need
a second GPU. The exit code is 0 if no case failed.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

SECONDS = 40
SKIPPED = 4
INTEROP = ("data", "memory_before_and_after_main", "fork_after_first_call", "fork_under_load", "fork_before_first_call",
           "exit_in_a_host_function", "free_in_a_host_function", "threads_that_end", "streams_in_a_loop", "foreign_pointers",
           "capture", "default_stream_beside_a_capture")
INTERPOSE = ("data", "data_in_threads", "fork_after_first_call", "fork_before_first_call", "exit_in_a_host_function",
             "free_in_a_late_destructor", "free_in_an_early_destructor", "foreign_pointers", "last_error_stays", "too_much",
             "streams_in_a_loop", "streams_side_by_side", "threads_that_end", "opened_by_hand", "own_pool",
             "counted_by_hand", "no_calls", "everywhere", "reused_after_an_event", "event_recorded_by_the_driver",
             "captured", "free_in_a_capture")


def ran(command, **variables):
    """Runs a command. Returns its exit code (None: it took too long), and the end of its output."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, check=False,
                              env={**os.environ, **variables})
        return done.returncode, done.stdout.decode(errors="replace")[-2500:]
    except subprocess.TimeoutExpired as late:
        return None, (late.stdout or b"").decode(errors="replace")[-2500:]


def result(name, code, output, wanted=0):
    status = "passed" if code == wanted else "skipped" if code == SKIPPED else "failed"
    how = f"still ran after {SECONDS} s" if code is None else f"exit {code}" + (f", wanted {wanted}" if wanted else "")
    if status == "skipped":
        how = next((line.removeprefix("skipped: ") for line in output.splitlines() if line.startswith("skipped: ")), how)
    return {"case": name, "status": status, **({} if status == "passed" else {"how": how, "output": output})}


def law(bin_folder, name):
    # The real runtime does not read the schedule. The cases then do not expect that a call
    # completes its work.
    escaped = "".join("\\" + c if c in "\\,[]*\"" else c for c in name)
    return result(name, *ran([bin_folder / "test_virtual_cuda_laws", escaped], MILLRACE_VIRTUAL="lag:5",
                             MILLRACE_LAWS_OF="nvidia"))


def interop(bin_folder, name):
    program = bin_folder / name
    command = [program] if name.endswith("_program") else [bin_folder / "interop_program", name]
    return result(name, *ran(command, **({"INTEROP_EARLY": "1"} if name.startswith("memory_before") else {})))


def interpose(bin_folder, name):
    command = [bin_folder / "interpose_program", name]
    ending = 3 if name == "exit_in_a_host_function" else 0
    alone, output = ran(command)
    if alone != ending:
        return result(name, alone, f"without Millrace:\n{output}", ending)
    return result(name, *ran([bin_folder / "millrace", "run", "--", *command]), wanted=ending)


def names_of_laws(bin_folder):
    """The names in Catch2's list: two spaces precede a name, four spaces precede its continuation
    lines."""
    listed = subprocess.run([bin_folder / "test_virtual_cuda_laws", "--list-tests"], check=False, stdout=subprocess.PIPE,
                            text=True)
    names = []
    for line in listed.stdout.splitlines():
        if line.startswith("    ") and names and not line.strip().startswith("["):
            names[-1] += " " + line.strip()
        elif line.startswith("  ") and not line.startswith("    "):
            names.append(line.strip())
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("what", choices=["laws", "interop", "interpose"])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--jobs", type=int, default=6)
    arguments = parser.parse_args()
    case, names = {
        "laws": (law, lambda: names_of_laws(arguments.bin)),
        "interop": (interop, lambda: [*INTEROP, "thrust_program", "cuda_mr_program"]),
        "interpose": (interpose, lambda: INTERPOSE),
    }[arguments.what]
    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        results = list(pool.map(lambda name: case(arguments.bin, name), names()))
    # Some cases check the amount of free memory and fail beside others. They are repeated alone,
    # and the result says so.
    for i, each in enumerate(results):
        if each["status"] == "failed":
            results[i] = {**case(arguments.bin, each["case"]), "tries": 2}
    counts = {status: sum(each["status"] == status for each in results) for status in ("passed", "failed", "skipped")}
    for each in results:
        if each["status"] != "passed":
            print(f"{each['status']}: {each['case']}: {each['how']}")
        if each["status"] == "failed":
            print(f"{each['output']}\n")
    print(", ".join(f"{count} {status}" for status, count in counts.items()))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"schema": "millrace.gpu-cases/1", "what": arguments.what, **counts, "cases": results}, file)
    return 0 if counts["failed"] == 0 and counts["passed"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
