"""The traces of this folder and their manifest: counts of a file, and figures of its replays."""

import gzip
import hashlib
import json
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
MANIFEST = FOLDER / "manifest.json"

sys.path.insert(0, str(ROOT / "tools" / "python"))

from millrace import trace as trace_format  # noqa: E402

_ORDER = ("used", "marked", "waited", "passed", "passed_stream", "passed_device", "closed")


def load():
    return json.loads(MANIFEST.read_text(encoding="utf-8"))


def identity(path):
    """Identifies a file for the manifest. The inflated bytes are the same with every version of
    zlib."""
    packed = path.read_bytes()
    inflated = gzip.decompress(packed)
    return {
        "bytes": len(packed),
        "sha256": hashlib.sha256(packed).hexdigest(),
        "inflated_bytes": len(inflated),
        "inflated_sha256": hashlib.sha256(inflated).hexdigest(),
    }


def counts(log):
    """Counts the contents of a trace by device, independently of the program that replays it."""
    used = sorted({event.device for event in log.events})
    of_device = {each.number: each for each in log.devices}
    return [
        {
            "device": device,
            "name": of_device[device].name,
            "memory_bytes": of_device[device].memory_bytes,
            "streams": sum(1 for each in log.streams if each.device == device and not each.for_all),
            "allocations": log.count("allocated", device),
            "frees": log.count("freed", device),
            "order": {kind: log.count(kind, device) for kind in _ORDER if log.count(kind, device) != 0},
            "live_bytes": log.peak_live(device),
        }
        for device in used
    ]


def replayed(program, path):
    """The bounds and the reserved bytes of every allocator by device, as `millrace replay` reports
    them."""
    command = [str(program), "replay", "--format", "json", str(path)]
    text = subprocess.run(command, check=True, capture_output=True).stdout
    file = json.loads(text)["files"][0]
    devices = {}
    for row in file["replays"]:
        ladder, figures = row["ladder"], devices.setdefault(row["device"], {"allocators": {}})
        figures["packed_bytes"] = row["packed_bytes"]
        if "recorded_peak_reserved_bytes" in row:
            figures["recorded_reserved_bytes"] = row["recorded_peak_reserved_bytes"]
        figures["allocators"][row["allocator"]] = {
            "reserved_bytes": row["statistics"]["bytes"]["reserved"]["peak"],
            "rounded_bound_bytes": ladder["l1"],
            "ordered_bound_bytes": ladder["l2"],
        }
    for driver in file.get("driver", []):
        devices[driver["device"]]["driver"] = {key: driver[key] for key in ("least_bytes", "most_bytes")}
    return devices


def figures(program, path):
    """The counts and the replays of each device."""
    found = replayed(program, path)
    return [{**each, **found.get(each["device"], {})} for each in counts(trace_format.read(path))]


def millrace_exceeds_torch(device):
    allocators = device["allocators"]
    return allocators["millrace"]["reserved_bytes"] > allocators["torch"]["reserved_bytes"]
