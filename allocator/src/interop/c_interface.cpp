// Implements millrace.h. `guarded` turns every exception into a status.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "interop/default_memory.hpp"
#include "interop/guarded.hpp"
#include "interop/snapshot.hpp"
#include "millrace.h"
#include "millrace/config.hpp"
#include "millrace/observe/report.hpp"

#undef millrace_malloc
#undef millrace_free
#undef millrace_record_stream
#undef millrace_transfer
#undef millrace_mark
#undef millrace_record_event
#undef millrace_wait_event
#undef millrace_synchronize

namespace millrace {
namespace {

/** Needs no destructor: calls may come when a thread's other objects are gone. */
struct LastError {
  millrace_status status = MILLRACE_OK;
  char text[4096] = "";
};

thread_local LastError last_error;

}  // namespace

millrace_status fail(millrace_status status, const char* text) noexcept {
  last_error.status = status;
  const std::size_t most = sizeof last_error.text - 1;
  const std::size_t length = std::min(std::strlen(text), most);
  std::memcpy(last_error.text, text, length);
  last_error.text[length] = '\0';
  return status;
}

millrace_status status_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::out_of_memory:
      return MILLRACE_OUT_OF_MEMORY;
    case ErrorCode::invalid_argument:
      return MILLRACE_INVALID_ARGUMENT;
    case ErrorCode::not_supported:
      return MILLRACE_NOT_SUPPORTED;
    case ErrorCode::capture:
      return MILLRACE_CAPTURE;
    case ErrorCode::device_lost:
      return MILLRACE_DEVICE_LOST;
    case ErrorCode::unknown:
      break;
  }
  return MILLRACE_UNKNOWN;
}

namespace {

/** For calls on memory that was allocated: they make no memory, and so start no GPU. */
DeviceMemory& memory_of(int device, const void* address) {
  if (DeviceMemory* const memory = find_default_memory(device)) return *memory;
  char text[96];
  std::snprintf(text, sizeof text, "%p is not a live allocation: GPU %d has no memory in use",
                address, device);
  throw std::invalid_argument{text};
}

/** A free in a forked child has nothing to free. */
template <typename Free>
millrace_status free_guarded(const void* address, int device, const Free& free) noexcept {
  if (address == nullptr || default_memory_is_of_parent()) return MILLRACE_OK;
  return guarded([&] { free(memory_of(device, address)); });
}

void copy_out(const MemoryStatistics& from, millrace_statistics* to) {
  millrace_statistics all{};
  const MemoryGauges& bytes = from.bytes;
  const MemoryCounters& counts = from.counts;
  all.struct_bytes = to->struct_bytes;
  all.requested = bytes.requested.current;
  all.requested_peak = bytes.requested.peak;
  all.allocated = bytes.allocated.current;
  all.allocated_peak = bytes.allocated.peak;
  all.active = bytes.active.current;
  all.active_peak = bytes.active.peak;
  all.reserved = bytes.reserved.current;
  all.reserved_peak = bytes.reserved.peak;
  all.cached = bytes.cached.current;
  all.segments = from.segments;
  all.live_blocks = from.live_blocks;
  all.free_blocks = from.free_blocks;
  all.allocations = counts.allocations;
  all.frees = counts.frees;
  all.served_own = counts.served_own;
  all.served_ordered = counts.served_ordered;
  all.served_waited = counts.served_waited;
  all.served_grown = counts.served_grown;
  all.waits_inserted = counts.waits_inserted;
  all.retries = counts.retries;
  all.out_of_memory = counts.out_of_memory;
  std::memcpy(to, &all, std::min(to->struct_bytes, sizeof all));
}

[[noreturn]] void refuse_file(const std::string& file, int error) {
  throw FileError{file + " cannot be written: " + std::strerror(error)};
}

/** 0, or an error number. */
int write_in_place(const std::string& path, const std::string& text) {
  errno = EIO;
  std::ofstream file{path, std::ios::binary};
  file << text << '\n';
  file.close();
  return file ? 0 : errno;
}

/** What a link stands for, through further links. */
std::string target_of(std::filesystem::path path) {
  std::error_code error;
  for (int links = 0; links < 40 && std::filesystem::is_symlink(path, error); ++links) {
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return path.string();
}

/** Whole or not at all, unless there is a device, a pipe or another special file of this name. */
void write_file(std::string path, const std::string& text) {
  static std::atomic<unsigned> count{0};
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    if (const int failed = write_in_place(path, text); failed != 0) refuse_file(path, failed);
    return;
  }
  path = target_of(path);  // writes the target of a link, and keeps the link
  const std::string unfinished =
      fmt::format("{}.{}.{}.tmp", path, getpid(), count.fetch_add(1, std::memory_order_relaxed));
  int failed = write_in_place(unfinished, text);
  if (failed == 0 && std::rename(unfinished.c_str(), path.c_str()) != 0) failed = errno;
  if (failed == 0) return;
  std::remove(unfinished.c_str());
  refuse_file(path, failed);
}

}  // namespace
}  // namespace millrace

using millrace::default_memory;
using millrace::DeviceMemory;
using millrace::free_guarded;
using millrace::guarded;
using millrace::memory_of;

const char* millrace_version(void) { return MILLRACE_VERSION; }
const char* millrace_last_error(void) { return millrace::last_error.text; }
millrace_status millrace_last_status(void) { return millrace::last_error.status; }

void* millrace_malloc(ssize_t size, int device, CUstream_st* stream) {
  void* address = nullptr;
  guarded([&] {
    if (size < 0) {
      throw std::invalid_argument{"millrace_malloc: a size of " + std::to_string(size) + " bytes"};
    }
    address = default_memory(device).allocate(static_cast<std::size_t>(size), stream);
  });
  return address;
}

void millrace_free(void* address, ssize_t, int device, CUstream_st* stream) {
  free_guarded(address, device, [&](DeviceMemory& memory) { memory.deallocate(address, stream); });
}

millrace_status millrace_free_owned(void* address, int device) {
  return free_guarded(address, device, [&](DeviceMemory& memory) { memory.deallocate(address); });
}

millrace_status millrace_record_stream(void* address, int device, CUstream_st* stream) {
  return guarded([&] {
    if (address != nullptr) memory_of(device, address).record_use(address, stream);
  });
}

millrace_status millrace_transfer(void* address, int device, CUstream_st* stream) {
  return guarded([&] {
    if (address != nullptr) memory_of(device, address).transfer(address, stream);
  });
}

millrace_status millrace_attach(int device, CUstream_st* stream, const char* name, unsigned flags) {
  return guarded([&] {
    if ((flags & ~unsigned{MILLRACE_ATTACH_INDEPENDENT}) != 0) {
      throw std::invalid_argument{"millrace_attach: flags that are not known"};
    }
    default_memory(device).attach(stream,
                                  {.name = name == nullptr ? "" : name,
                                   .independent = (flags & MILLRACE_ATTACH_INDEPENDENT) != 0});
  });
}

millrace_status millrace_detach(int device, CUstream_st* stream) {
  return guarded([&] { default_memory(device).detach(stream); });
}

millrace_status millrace_mark(int device, CUstream_st* stream) {
  return guarded([&] { default_memory(device).mark(stream); });
}

millrace_status millrace_record_event(int device, CUevent_st* event, CUstream_st* stream) {
  return guarded([&] { default_memory(device).record(event, stream); });
}

millrace_status millrace_wait_event(int device, CUstream_st* stream, CUevent_st* event) {
  return guarded([&] { default_memory(device).wait(stream, event); });
}

millrace_status millrace_forget_event(int device, CUevent_st* event) {
  return guarded([&] { default_memory(device).forget(event); });
}

millrace_status millrace_synchronize(int device, CUstream_st* stream) {
  return guarded([&] { default_memory(device).synchronize(stream); });
}

millrace_status millrace_set_limit(int device, size_t bytes) {
  return guarded([&] { default_memory(device).caching().set_limit(bytes); });
}

millrace_status millrace_set_headroom(int device, size_t bytes) {
  return guarded([&] { default_memory(device).caching().set_headroom(bytes); });
}

millrace_status millrace_trim(int device, size_t keep, size_t* released) {
  return guarded([&] {
    const std::size_t bytes = default_memory(device).trim(keep);
    if (released != nullptr) *released = bytes;
  });
}

millrace_status millrace_get_statistics(int device, millrace_statistics* statistics) {
  return guarded([&] {
    if (statistics == nullptr || statistics->struct_bytes < sizeof(std::size_t)) {
      throw std::invalid_argument{
          "millrace_get_statistics: struct_bytes is not sizeof(millrace_statistics)"};
    }
    millrace::copy_out(default_memory(device).statistics(), statistics);
  });
}

millrace_status millrace_statistics_json(int device, char* text, size_t bytes, size_t* size) {
  return guarded([&] {
    if (text == nullptr && bytes != 0) {
      throw std::invalid_argument{"millrace_statistics_json: no text for " + std::to_string(bytes) +
                                  " bytes; to ask for the size, pass 0 bytes"};
    }
    const nlohmann::json document = default_memory(device).statistics();
    const std::string whole = document.dump();
    if (size != nullptr) *size = whole.size() + 1;
    if (bytes != 0) {
      const std::size_t length = std::min(bytes - 1, whole.size());
      std::memcpy(text, whole.data(), length);
      text[length] = '\0';
    }
    if (bytes != 0 && bytes <= whole.size()) {
      throw std::invalid_argument{"millrace_statistics_json: the text has " +
                                  std::to_string(whole.size() + 1) + " bytes"};
    }
  });
}

millrace_status millrace_record_history(int device, size_t allocations, unsigned stack_frames) {
  return guarded([&] {
    default_memory(device).record_history(
        {.allocations = allocations, .stack_frames = stack_frames});
  });
}

millrace_status millrace_annotate(int device, const char* name) {
  return guarded([&] {
    if (name == nullptr) throw std::invalid_argument{"millrace_annotate: no name"};
    default_memory(device).annotate(name);
  });
}

millrace_status millrace_snapshot(int device, const char* path) {
  return guarded([&] {
    if (path == nullptr) throw std::invalid_argument{"millrace_snapshot: no path"};
    const bool pickled = std::string_view{path}.ends_with(".pickle");
    millrace::write_file(path, pickled ? millrace::pickled_snapshot(default_memory(device))
                                       : millrace::snapshot(default_memory(device)).dump());
  });
}
