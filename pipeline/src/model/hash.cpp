#include "model/hash.hpp"

#include <fmt/format.h>

#include <array>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace millrace::model {

struct Hash::State {
  XXH3_state_t narrow, wide;
};

Hash::Hash() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->narrow);
  XXH3_128bits_reset(&state_->wide);
}

Hash::~Hash() = default;

void Hash::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->narrow, bytes.data(), bytes.size());
  XXH3_128bits_update(&state_->wide, bytes.data(), bytes.size());
}

void Hash::add(std::uint64_t number) {
  std::array<std::byte, sizeof number> bytes{};
  // Little-endian on every machine, so that digests can be compared.
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(number & 0xFFU);
    number >>= 8U;
  }
  add(std::span<const std::byte>{bytes});
}

std::uint64_t Hash::of_64_bits() const { return XXH3_64bits_digest(&state_->narrow); }

std::string Hash::of_128_bits() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->wide);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace millrace::model
