#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace millrace::model {

/** @brief XXH3 of bytes that are given in pieces. The result is the same on every machine. */
class Hash {
 public:
  Hash();
  ~Hash();
  void add(std::span<const std::byte> bytes);
  void add(std::uint64_t number);

  [[nodiscard]] std::uint64_t of_64_bits() const;
  [[nodiscard]] std::string of_128_bits() const;  ///< hexadecimal

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::model
