#pragma once

#include <fmt/format.h>

/// @file
/// fmt's headers without its library, whose largest function is compiled once for the allocator and
/// not in each unit. Only the precompiled header includes this: without it, the program is the
/// same, and takes longer to compile.

#if defined(FMT_HEADER_ONLY) && FMT_VERSION / 10000 == 9  // another version declares it otherwise
#define MILLRACE_FORMAT_ONCE 1
FMT_BEGIN_NAMESPACE
namespace detail {
extern template void vformat_to<char>(buffer<char>&, basic_string_view<char>,
                                      basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref);
}  // namespace detail
FMT_END_NAMESPACE
#endif
