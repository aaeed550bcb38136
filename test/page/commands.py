"""The arguments with which the program writes the pages of the test."""

import os

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SNAPSHOT = os.path.join(ROOT, "test", "observe", "snapshots", "capture_streams.pickle.gz")
TRACE = os.path.join(ROOT, "bench", "traces", "sparse_dist.trace.gz")
# Pages of the other commands. Only the arguments differ.
OTHERS = {
    "explain a snapshot": ["explain", SNAPSHOT],
    "explain a snapshot against another": ["explain", SNAPSHOT, "--against", SNAPSHOT.replace(".pickle", ".expandable.pickle")],
    "explain a trace": ["explain", TRACE],
    "explain a trace of many waits": ["explain", TRACE.replace("sparse_dist", "sharded_transformer"), "--replay", "none"],
    "replay a trace": ["replay", TRACE, "--allocator", "torch,millrace"],
    "replay a trace of reuse after waits": ["replay", TRACE.replace("sparse_dist", "ranking_with_evaluation")],
    "pipelines": ["pipelines", "--pipeline", "base", "--copy", "side-stream", "--allocator", "torch,millrace", "--steps", "3", "--ranks",
                  "1", "--batch-size", "64", "--seeds", "1"],
    "stream bench": ["stream", "bench", "--rows", "400", "--table-rows", "4000", "--steps", "3", "--capture", "ring"],
}
# Options of bench/make_snapshot.py for the files of `explain` that the test makes.
MADE = {
    "two devices and a pool.pickle": ["--events", "4000", "--devices", "2", "--pools", "1", "--pool-ids"],
    "no stacks, wrapped.pickle": ["--events", "3000", "--stacks", "0", "--wrapped"],
    "log.csv": ["--events", "3000", "--rmm"],
}
FOOTPRINT = ["footprint", "--workload", "sparse_data_dist_base", "--allocator", "torch,millrace", "--copy", "side-stream",
             "--seeds", "1", "--steps", "6", "--batch-bytes", "64MiB", "--format", "json"]
