#pragma once

#include <fmt/format.h>

/// @file
/// fmt's headers without fmt's library. Its largest function is compiled once for the
/// allocator and not in each unit. Only the precompiled header includes this file. Without it the
/// program is the same, but takes longer to compile.

#if defined(FMT_HEADER_ONLY) && FMT_VERSION / 10000 == 9  // other versions declare it differently
#define MILLRACE_FORMAT_ONCE 1
FMT_BEGIN_NAMESPACE
namespace detail {
extern template void vformat_to<char>(buffer<char>&, basic_string_view<char>,
                                      basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref);
}  // namespace detail
FMT_END_NAMESPACE
#endif
