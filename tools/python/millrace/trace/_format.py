"""The numbers of the format in docs/record.md, for the reader and the writer."""

MAGIC = b"\x8dMRTRACE"
VERSION = 1

LEGACY, BLOCKING, FOR_ALL = 1, 2, 4
TIMES_ARE_POSITIONS, ADDRESSES_ARE_MADE_UP = 1, 2
MOST_ADDRESS = 1 << 57
MOST_TIME = 1 << 62
MOST_DEVICES = 64

PROGRAM, DEVICE, STREAM, FRAME, STACK, LABEL = 1, 2, 3, 4, 5, 6
# Kinds of events. Each has these fields after its time, in this order.
EVENTS = {
    16: ("allocated", ("stream", "address", "bytes", "stack", "label")),
    17: ("freed", ("block", "stream")),
    18: ("completed", ("block",)),
    19: ("failed", ("stream", "bytes")),
    20: ("used", ("block", "stream")),
    21: ("marked", ("stream", "growth")),
    22: ("waited", ("stream", "other", "back")),
    23: ("passed", ("stream", "back")),
    24: ("passed_stream", ("stream",)),
    25: ("passed_device", ("device",)),
    26: ("closed", ("stream",)),
    27: ("reserved", ("device", "address", "bytes")),
    28: ("released", ("device", "address", "bytes")),
    29: ("device_reset", ("device",)),
    30: ("pool_keeps", ("device", "bytes")),
    31: ("pool_trimmed", ("device", "bytes")),
    32: ("not_passed", ("stream", "back")),
    33: ("stream_not_passed", ("stream",)),
    127: ("ended", ()),
}
KINDS = {name: kind for kind, (name, _) in EVENTS.items()}
