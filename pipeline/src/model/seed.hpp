#pragma once

#include <cstdint>
#include <string_view>

#include "model/draw.hpp"

namespace millrace::model {

/**
 * @brief Returns the stream of random draws for the parameter `name`: a hash (FNV-1a) of name and
 * seed.
 */
[[nodiscard]] inline std::uint64_t stream_of_draws(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return mixed(hash ^ mixed(seed + 0x9e3779b97f4a7c15U));
}

}  // namespace millrace::model
