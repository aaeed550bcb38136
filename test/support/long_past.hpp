#pragma once

#include "millrace/ordering/point.hpp"

namespace millrace::test {

/// A point before all work of a stream that does not exist. An allocator accepts a free after it,
/// because it trusts the caller about streams other than the owner and the first user. Such a free
/// is always too early. Only for allocators that are wrong on purpose.
inline constexpr Point kLongPast{.stream = {.slot = 0xffff'ffff, .generation = 1}, .marker = 0};

}  // namespace millrace::test
