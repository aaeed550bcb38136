"""Settings of PyTorch's allocator that a program changes at run time."""

import os
import warnings

import millrace

# Keys of pinned memory, which PyTorch still manages.
_PINNED = "pinned_"
_WITHOUT_EFFECT = {
    "max_non_split_rounding_mb", "release_lock_on_cudamalloc", "throw_on_cudamalloc_oom",
    "graph_capture_record_stream_reuse", "expandable_segments_reserve", "expandable_segments_reserve_by_class"
}
_DEFAULTS = {"backend": "native", "expandable_segments": "True"}
_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_FUNCTIONS = ("_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings")


def items(text):
    """Splits a configuration into (key, value) items. Commas in brackets do not separate items."""
    depth, start, found = 0, 0, []
    for at, letter in enumerate(text + ","):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            key, _, value = text[start:at].partition(":")
            if key.strip():
                found.append((key.strip(), value.strip()))
            start = at + 1
    return found


def change(text, has_begun, own):
    """Applies settings to Millrace. Raises millrace.Error if it is too late for one of them.

    `own` is PyTorch's function. It checks the settings, and keeps those of pinned memory. Millrace
    reads the environment at a GPU's first allocation. Settings that come earlier are written to the
    environment.
    """
    variable = next((name for name in _VARIABLES if name in os.environ), _VARIABLES[-1])
    before = os.environ.get(variable, "")
    known = {**_DEFAULTS, **dict(items(before))}
    changed = [(key, value) for key, value in items(text)
               if not key.startswith(_PINNED) and known.get(key) != value]
    ignored = [key for key, _ in changed if key in _WITHOUT_EFFECT]
    late = [f"{key}:{value}" for key, value in changed if key not in _WITHOUT_EFFECT]
    if late and has_begun:
        raise millrace.Error(
            f"{', '.join(late)}: Millrace reads the settings of PyTorch's allocator before the first use of a GPU, and "
            f"this program has used one. Set them before that, or in PYTORCH_ALLOC_CONF")
    own(text)
    if ignored:
        warnings.warn(f"millrace: these keys of PyTorch's allocator configuration change nothing: {', '.join(ignored)}",
                      stacklevel=4)
    if changed and not has_begun:
        os.environ[variable] = ",".join(part for part in (before, text) if part)


def take_over(torch):
    """Wraps PyTorch's functions for settings: they check the settings, keep those of pinned memory,
    and pass them to Millrace."""
    for name in _FUNCTIONS:
        own = getattr(torch._C, name, None)
        if own is None or hasattr(own, "millrace_own"):
            continue

        def set_allocator_settings(text, own=own):
            change(text, torch.cuda.is_initialized(), own)

        set_allocator_settings.millrace_own = own
        setattr(torch._C, name, set_allocator_settings)
