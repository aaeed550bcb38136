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
 * @brief Virtual memory management as the driver offers it: addresses that a program reserves, and
 *        pieces of a GPU's memory that it maps there. Guarded by the engine's lock.
 *
 * All functions return an error of CUDA, and change nothing with one.
 */
class Ranges {
 public:
  static constexpr std::size_t kGranularity = std::size_t{2} << 20;

  explicit Ranges(Memory& memory);

  cudaError_t reserve(std::uintptr_t& address, std::size_t bytes, std::size_t alignment);
  cudaError_t release(std::uintptr_t address, std::size_t bytes);
  /** @param exportable  as a file */
  cudaError_t create(std::uint64_t& handle, std::size_t bytes, unsigned gpu, bool exportable);
  /** @brief Of a handle that the program has created, imported or retained. */
  cudaError_t release(std::uint64_t handle);
  /** @brief A file that stands for the memory, and keeps it until it is closed. */
  cudaError_t share(int& file, std::uint64_t handle);
  /** @brief Another reference to the memory of a file of `share`. @return nothing if it is none */
  [[nodiscard]] std::optional<std::uint64_t> import(int file);
  /** @brief Gives back memory that only files kept, which are closed by now. */
  void drop_closed();
  cudaError_t map(std::uintptr_t address, std::size_t bytes, std::uint64_t handle);
  cudaError_t unmap(std::uintptr_t address, std::size_t bytes);
  /** @brief Sets the access of a GPU to whole mappings. A new mapping has none, for any GPU. */
  cudaError_t set_access(std::uintptr_t address, std::size_t bytes, unsigned gpu,
                         cudaMemAccessFlags access);
  /** @brief The access of a GPU to the mapping that holds `address`; nothing if there is none. */
  [[nodiscard]] std::optional<cudaMemAccessFlags> access(std::uintptr_t address,
                                                         unsigned gpu) const;

  /** @brief Whether something is mapped at each of the bytes, and a GPU has access to it. */
  [[nodiscard]] bool accessible(std::uintptr_t address, std::size_t bytes) const;

  /** @brief The mapping that holds `address`. */
  [[nodiscard]] std::optional<Memory::Range> mapping(std::uintptr_t address) const;
  /** @brief Another reference to the memory that is mapped at `address`. @return its handle */
  [[nodiscard]] std::optional<std::uint64_t> retain(std::uintptr_t address);
  struct About {
    unsigned gpu = 0;
    bool exportable = false;
  };
  /** @brief Where the memory of a handle lies. */
  [[nodiscard]] std::optional<About> about(std::uint64_t handle) const;

 private:
  cudaError_t drop(std::uint64_t handle);
  void keep(std::uint64_t handle);

  struct Piece {
    std::size_t pages = 0;
    std::size_t bytes = 0;
    unsigned gpu = 0;
    unsigned references = 1;  // of each handle of the program's, of each mapping and of each file
    unsigned handles = 1;     // of the program's
    bool exportable = false;
  };
  struct Mapping {
    std::size_t bytes = 0;
    std::uint64_t handle = 0;
    std::map<unsigned, cudaMemAccessFlags> access;  // of GPUs that have one
  };

  [[nodiscard]] std::map<std::uintptr_t, Mapping>::const_iterator find(
      std::uintptr_t address) const;

  /** @brief Whether mappings cover the whole of it and nothing more. */
  [[nodiscard]] bool covered(std::uintptr_t address, std::size_t bytes) const;

  Memory* memory_;
  simulation::AddressSpace space_;
  std::map<std::uint64_t, Piece> pieces_;
  std::map<std::uintptr_t, Mapping> mappings_;
  std::uint64_t handles_ = 0;
  SharedFiles files_;
};

}  // namespace millrace::virtual_cuda
