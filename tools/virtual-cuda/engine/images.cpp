#include "engine/images.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace millrace::virtual_cuda {
namespace {

struct Wrapper {
  std::uint32_t magic;
  std::uint32_t version;
  const std::byte* data;
};
struct Container {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;  // sum over all entries
};
struct Entry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;
  std::uint32_t not_read[3];
  std::uint32_t architecture;
};
constexpr std::uint32_t kWrapper = 0x466243B1;
constexpr std::uint32_t kContainer = 0xBA55ED50;
constexpr std::uint16_t kPtx = 1, kElf = 2;

template <typename Part>
Part read(const std::byte* at) {
  Part part;
  std::memcpy(&part, at, sizeof part);
  return part;
}

}  // namespace

std::vector<Image> images_of(const void* wrapper) {
  if (wrapper == nullptr) return {};
  const auto outer = read<Wrapper>(static_cast<const std::byte*>(wrapper));
  if (outer.magic != kWrapper || outer.data == nullptr) return {};
  const auto container = read<Container>(outer.data);
  if (container.magic != kContainer || container.header_bytes < sizeof container) return {};
  std::vector<Image> images;
  const std::byte* at = outer.data + container.header_bytes;
  for (std::uint64_t left = container.bytes; left >= sizeof(Entry);) {
    const auto entry = read<Entry>(at);
    if (entry.header_bytes < sizeof(Entry) || entry.header_bytes > left ||
        entry.bytes > left - entry.header_bytes)
      return {};
    if (entry.kind == kPtx || entry.kind == kElf)
      images.push_back({static_cast<int>(entry.architecture), entry.kind == kElf});
    at += entry.header_bytes + entry.bytes;
    left -= entry.header_bytes + entry.bytes;
  }
  return images;
}

std::optional<CodeVersions> choose(const std::vector<Image>& images, int gpu) {
  int code = 0, ptx = 0;
  for (const Image& image : images) {
    if (image.architecture > gpu) continue;
    if (!image.compiled)
      ptx = std::max(ptx, image.architecture);
    else if (image.architecture / 10 == gpu / 10)
      code = std::max(code, image.architecture);
  }
  if (code != 0) return CodeVersions{code, code};
  if (ptx != 0) return CodeVersions{gpu, ptx};
  return std::nullopt;
}

}  // namespace millrace::virtual_cuda
