#pragma once

#include <map>
#include <optional>

#include "abi/cuda_runtime_api.h"

namespace millrace::virtual_cuda {

/** @brief The parameters of a texture or surface object. Only kernels read through the object. */
struct TextureObject {
  cudaResourceDesc resource{};
  std::optional<cudaTextureDesc> texture;  ///< nothing for a surface
  std::optional<cudaResourceViewDesc> view;
};

/** @brief The texture and surface objects of the process. Guarded by the engine's lock. */
class Textures {
 public:
  [[nodiscard]] unsigned long long add(const TextureObject& object) {
    objects_.emplace(++last_, object);
    return last_;
  }
  /** @brief The object, if it is a surface and `surface` is set, or a texture and it is not. */
  [[nodiscard]] const TextureObject* find(unsigned long long object, bool surface) const {
    const auto entry = objects_.find(object);
    const bool found = entry != objects_.end() && !entry->second.texture.has_value() == surface;
    return found ? &entry->second : nullptr;
  }
  void remove(unsigned long long object) { objects_.erase(object); }

 private:
  std::map<unsigned long long, TextureObject> objects_;
  unsigned long long last_ = 0;
};

}  // namespace millrace::virtual_cuda
