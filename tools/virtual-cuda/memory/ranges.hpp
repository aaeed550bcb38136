#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "memory/memory.hpp"
#include "memory/shared_files.hpp"
#include "millrace/device/address_space.hpp"

namespace millrace::virtual_cuda {

/**
 * @brief The driver's virtual memory management: address ranges that a program reserves, and pieces
 *        of a GPU's memory that it maps there. Guarded by the engine's lock.
 *
 * Functions return an error code of CUDA. After an error, nothing has changed.
 */
class Ranges {
 public:
  static constexpr std::size_t kGranularity = std::size_t{2} << 20;

  explicit Ranges(Memory& memory);

  cudaError_t reserve(std::uintptr_t& address, std::size_t bytes, std::size_t alignment);
  cudaError_t release(std::uintptr_t address, std::size_t bytes);
  /** @param exportable  whether `share` can make a file for the memory */
  cudaError_t create(std::uint64_t& handle, std::size_t bytes, unsigned gpu, bool exportable);
  /** @brief Releases a handle that the program has created, imported or retained. */
  cudaError_t release(std::uint64_t handle);
  /** @brief Makes a file that represents the memory and keeps it until the file is closed. */
  cudaError_t share(int& file, std::uint64_t handle);
  /** @brief Adds a reference to the memory of a file from `share`. @return nothing for others */
  [[nodiscard]] std::optional<std::uint64_t> import(int file);
  /** @brief Frees memory that only files kept, if these files are closed. */
  void drop_closed();
  cudaError_t map(std::uintptr_t address, std::size_t bytes, std::uint64_t handle);
  cudaError_t unmap(std::uintptr_t address, std::size_t bytes);
  /** @brief Sets the access of a GPU to whole mappings. No GPU has access to a new mapping. */
  cudaError_t set_access(std::uintptr_t address, std::size_t bytes, unsigned gpu,
                         cudaMemAccessFlags access);
  /** @brief The access of a GPU to the mapping that holds `address`; nothing without a mapping. */
  [[nodiscard]] std::optional<cudaMemAccessFlags> access(std::uintptr_t address,
                                                         unsigned gpu) const;

  /** @brief Whether each byte is mapped, and some GPU has access to it. */
  [[nodiscard]] bool accessible(std::uintptr_t address, std::size_t bytes) const;

  /** @brief The mapping that holds `address`. */
  [[nodiscard]] std::optional<Memory::Range> mapping(std::uintptr_t address) const;
  /** @brief Adds a reference to the memory that is mapped at `address`. @return its handle */
  [[nodiscard]] std::optional<std::uint64_t> retain(std::uintptr_t address);
  struct About {
    unsigned gpu = 0;
    bool exportable = false;
  };
  /** @brief The GPU of a handle's memory, and whether it can be exported. */
  [[nodiscard]] std::optional<About> about(std::uint64_t handle) const;

 private:
  cudaError_t drop(std::uint64_t handle);
  void keep(std::uint64_t handle);

  struct Piece {
    std::size_t pages = 0;
    std::size_t bytes = 0;
    unsigned gpu = 0;
    unsigned references = 1;  // one for each handle of the program, each mapping and each file
    unsigned handles = 1;     // handles of the program
    bool exportable = false;
  };
  struct Mapping {
    std::size_t bytes = 0;
    std::uint64_t handle = 0;
    std::map<unsigned, cudaMemAccessFlags> access;  // by GPU; none if absent
  };

  [[nodiscard]] std::map<std::uintptr_t, Mapping>::const_iterator find(
      std::uintptr_t address) const;

  /** @brief Whether mappings cover exactly this range. */
  [[nodiscard]] bool covered(std::uintptr_t address, std::size_t bytes) const;

  Memory* memory_;
  simulation::AddressSpace space_;
  std::map<std::uint64_t, Piece> pieces_;
  std::map<std::uintptr_t, Mapping> mappings_;
  std::uint64_t handles_ = 0;
  SharedFiles files_;
};

}  // namespace millrace::virtual_cuda
