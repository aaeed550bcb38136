#include "observe/trace/value/pickle_writer.hpp"

#include <bit>
#include <utility>

#include "observe/trace/value/pickle_opcodes.hpp"

namespace millrace::trace {
namespace {

constexpr char byte_of(pickle::Opcode opcode) { return static_cast<char>(opcode); }

}  // namespace

using pickle::Opcode;

void PickleWriter::put_little(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) put(static_cast<char>(value >> (8 * i)));
}

void PickleWriter::text(std::string_view text) {
  constexpr std::size_t longest_shared = 128;
  const auto known = known_.find(text);
  if (known != known_.end()) return again(known->second);
  put(byte_of(Opcode::binunicode));
  put_little(text.size(), 4);
  bytes_ += text;
  if (text.size() > longest_shared) return;
  known_.emplace(text, keep());
}

std::uint32_t PickleWriter::keep() {
  const std::uint32_t place = places_++;
  put(byte_of(place < 256 ? Opcode::binput : Opcode::long_binput));
  put_little(place, place < 256 ? 1 : 4);
  return place;
}

void PickleWriter::again(std::uint32_t place) {
  put(byte_of(place < 256 ? Opcode::binget : Opcode::long_binget));
  put_little(place, place < 256 ? 1 : 4);
}

void PickleWriter::integer(std::int64_t value) {
  if (value >= 0) return natural(static_cast<std::uint64_t>(value));
  if (value >= INT32_MIN) {
    put(byte_of(Opcode::binint));
    return put_little(static_cast<std::uint64_t>(value), 4);
  }
  put(byte_of(Opcode::long1));
  put(8);
  put_little(static_cast<std::uint64_t>(value), 8);
}

void PickleWriter::natural(std::uint64_t value) {
  if (value <= UINT8_MAX) {
    put(byte_of(Opcode::binint1));
    put_little(value, 1);
  } else if (value <= UINT16_MAX) {
    put(byte_of(Opcode::binint2));
    put_little(value, 2);
  } else if (value <= INT32_MAX) {
    put(byte_of(Opcode::binint));
    put_little(value, 4);
  } else {
    const int bytes = static_cast<int>(std::bit_width(value)) / 8 + 1;  // with a bit for the sign
    put(byte_of(Opcode::long1));
    put(static_cast<char>(bytes));
    for (int i = 0; i < bytes; ++i) put(i < 8 ? static_cast<char>(value >> (8 * i)) : '\0');
  }
}

void PickleWriter::real(double value) {
  put(byte_of(Opcode::binfloat));
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int i = 7; i >= 0; --i) put(static_cast<char>(bits >> (8 * i)));
}

void PickleWriter::boolean(bool value) { put(byte_of(value ? Opcode::newtrue : Opcode::newfalse)); }

void PickleWriter::pair(std::int64_t first, std::int64_t second) {
  integer(first);
  integer(second);
  put(byte_of(Opcode::tuple2));
}

void PickleWriter::begin_list() {
  put(byte_of(Opcode::empty_list));
  put(byte_of(Opcode::mark));
  items_.push_back(0);
}

// PyTorch's viewer gives a portion to a function as its arguments, of which there may not be many.
void PickleWriter::item() {
  constexpr std::uint32_t most_items = 1000;
  if (items_.back()++ < most_items) return;
  items_.back() = 1;
  put(byte_of(Opcode::appends));
  put(byte_of(Opcode::mark));
}

void PickleWriter::end_list() {
  put(byte_of(Opcode::appends));
  items_.pop_back();
}

void PickleWriter::begin_dict() {
  put(byte_of(Opcode::empty_dict));
  put(byte_of(Opcode::mark));
}
void PickleWriter::end_dict() { put(byte_of(Opcode::setitems)); }

std::string PickleWriter::finish() {
  put(byte_of(Opcode::stop));
  return std::move(bytes_);
}

}  // namespace millrace::trace
