"""Settings changed at run time: respected before the first use of a GPU, refused by name later."""

import os
import warnings

import torch

import millrace
from checks import check

MIB = 1 << 20


def main():
    set_settings = torch.cuda.memory._set_allocator_settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        set_settings("expandable_segments:False,pinned_use_background_threads:True")
        torch._C._accelerator_setAllocatorSettings("roundup_power2_divisions:[256:1,512:2,>:8]")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch._C._accelerator_setAllocatorSettings("max_non_split_rounding_mb:30")
    check(any("max_non_split_rounding_mb" in str(each.message) for each in told), "a key without effect is named")

    kept = torch.empty(300 * MIB + 1, dtype=torch.uint8, device="cuda")  # 320 MiB: 10/8 of 256
    if torch.cuda.get_allocator_backend() == "millrace":
        snapshot = torch.cuda.memory._snapshot()
        check(not snapshot["allocator_settings"]["expandable_segments"], "the setting is in effect")
    check(os.environ["PYTORCH_ALLOC_CONF"].startswith("expandable_segments:False"), "Millrace reads it")

    torch._C._accelerator_setAllocatorSettings("expandable_segments:False")  # already the value
    torch._C._accelerator_setAllocatorSettings("pinned_use_background_threads:False")  # PyTorch's own
    try:
        torch._C._accelerator_setAllocatorSettings("garbage_collection_threshold:0.5")
        check(False, "a setting that comes too late is refused")
    except millrace.Error as error:
        check(str(error).startswith("garbage_collection_threshold:0.5: "), f"it is named: {error}")
    del kept


if __name__ == "__main__":
    main()
