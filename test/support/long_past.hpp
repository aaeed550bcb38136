#pragma once

#include "millrace/ordering/point.hpp"

namespace millrace::test {

/// Before all work of a stream that nobody has. A free behind it is accepted, as an allocator takes
/// the caller's word for other streams than the owner and the first user, and it is always too
/// early. For allocators that are wrong on purpose.
inline constexpr Point kLongPast{.stream = {.slot = 0xffff'ffff, .generation = 1}, .marker = 0};

}  // namespace millrace::test
