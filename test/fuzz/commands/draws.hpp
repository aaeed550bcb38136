#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::fuzz {

/// Random choices that follow from an input's bytes alone.
class Draws {
 public:
  explicit Draws(std::string_view bytes) {
    std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
    for (const char letter : bytes) {
      hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
    }
    random_.seed(hash);
  }

  std::size_t below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>{0, bound - 1}(random_);
  }
  bool one_in(std::size_t n) { return below(n) == 0; }

  template <typename Item>
  const Item& of(const std::vector<Item>& items) {
    return items[below(items.size())];
  }

  std::string bytes(std::size_t size) {
    std::string text(size, '\0');
    for (char& letter : text) letter = static_cast<char>(below(256));
    return text;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace millrace::fuzz
