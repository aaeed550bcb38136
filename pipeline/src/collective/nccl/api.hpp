#pragma once

#include <cstddef>
#include <string>

namespace millrace::collective {

/**
 * @brief The NCCL functions that Millrace uses, loaded at the first use; a build needs no headers.
 *
 * Signatures and values are those of nccl.h 2.x; results, data types and operations are ints.
 */
struct NcclApi {
  struct UniqueId {
    char bytes[128];
  };
  using Comm = void*;
  using Stream = void*;

  static constexpr int kSuccess = 0, kInProgress = 7;
  static constexpr int kUint8 = 1, kFloat32 = 7;
  static constexpr int kSum = 0;

  int (*get_version)(int* version);
  int (*get_unique_id)(UniqueId* id);
  int (*comm_init_rank)(Comm* comm, int ranks, UniqueId id, int rank);
  int (*comm_destroy)(Comm comm);
  int (*comm_abort)(Comm comm);
  int (*comm_get_async_error)(Comm comm, int* error);
  const char* (*get_error_string)(int result);
  int (*group_start)();
  int (*group_end)();
  int (*send)(const void* from, std::size_t count, int type, int peer, Comm comm, Stream stream);
  int (*recv)(void* to, std::size_t count, int type, int peer, Comm comm, Stream stream);
  int (*all_reduce)(const void* from, void* to, std::size_t count, int type, int operation,
                    Comm comm, Stream stream);
  int (*broadcast)(const void* from, void* to, std::size_t count, int type, int root, Comm comm,
                   Stream stream);
  // nullptr before 2.19.
  int (*comm_register)(Comm comm, void* data, std::size_t bytes, void** handle);
  int (*comm_deregister)(Comm comm, void* handle);

  int version = 0;  ///< 22304 is 2.23.4
  /**
   * @brief Whether operations of different communicators run in the order of their launches.
   *
   * Ranks that launch in the same order then cannot deadlock. True from 2.26 on, unless the
   * environment disables it (NCCL_LAUNCH_ORDER_IMPLICIT=0).
   */
  bool ordered_launches = false;

  /** @brief Returns nullptr if NCCL cannot be loaded; `problem` then says why, without the remedy.
   */
  [[nodiscard]] static const NcclApi* find(std::string* problem = nullptr);

  /** @throws std::runtime_error unless `result` is success */
  void check(int result, const char* call) const;
};

}  // namespace millrace::collective
