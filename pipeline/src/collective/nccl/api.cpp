#include "collective/nccl/api.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "millrace/pipeline/collective/nccl_group.hpp"

namespace millrace::collective {
namespace {

struct LoadedApi {
  NcclApi api{};
  std::string problem;
};

template <typename Function>
void find_in(void* library, const char* name, Function& function, std::string* missing) {
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr && missing != nullptr) *missing = fmt::format("it lacks {}", name);
  function = reinterpret_cast<Function>(symbol);
}

// NCCL reads this variable when its first communicator is made.
bool order_launches(int version) {
  constexpr int kFirst = 22600;
  if (version < kFirst) return false;
  constexpr const char* name = "NCCL_LAUNCH_ORDER_IMPLICIT";
  setenv(name, "1", 0);
  return std::string_view{std::getenv(name)} == "1";
}

LoadedApi load() {
  LoadedApi found;
  const char* const given = std::getenv("MILLRACE_NCCL");
  const char* const name = given != nullptr ? given : "libnccl.so.2";
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    found.problem = fmt::format("NCCL cannot be loaded ({})", dlerror());
    return found;
  }
  NcclApi& api = found.api;
  find_in(library, "ncclGetVersion", api.get_version, &found.problem);
  find_in(library, "ncclGetUniqueId", api.get_unique_id, &found.problem);
  find_in(library, "ncclCommInitRank", api.comm_init_rank, &found.problem);
  find_in(library, "ncclCommDestroy", api.comm_destroy, &found.problem);
  find_in(library, "ncclCommAbort", api.comm_abort, &found.problem);
  find_in(library, "ncclCommGetAsyncError", api.comm_get_async_error, &found.problem);
  find_in(library, "ncclGetErrorString", api.get_error_string, &found.problem);
  find_in(library, "ncclGroupStart", api.group_start, &found.problem);
  find_in(library, "ncclGroupEnd", api.group_end, &found.problem);
  find_in(library, "ncclSend", api.send, &found.problem);
  find_in(library, "ncclRecv", api.recv, &found.problem);
  find_in(library, "ncclAllReduce", api.all_reduce, &found.problem);
  find_in(library, "ncclBroadcast", api.broadcast, &found.problem);
  // These are newer than 2.7: with a library without them, no memory is registered.
  find_in(library, "ncclCommRegister", api.comm_register, nullptr);
  find_in(library, "ncclCommDeregister", api.comm_deregister, nullptr);
  if (found.problem.empty() && api.get_version(&api.version) == NcclApi::kSuccess) {
    api.ordered_launches = order_launches(api.version);
  }
  if (!found.problem.empty()) {
    found.problem = fmt::format("{} is not NCCL 2.7 or later: {}", name, found.problem);
  }
  return found;
}

}  // namespace

const NcclApi* NcclApi::find(std::string* problem) {
  static const LoadedApi found = load();
  if (problem != nullptr) *problem = found.problem;
  return found.problem.empty() ? &found.api : nullptr;
}

void NcclApi::check(int result, const char* call) const {
  if (result == kSuccess || result == kInProgress) return;
  throw std::runtime_error{fmt::format("{}: {}", call, get_error_string(result))};
}

}  // namespace millrace::collective

namespace millrace {

NcclSupport nccl_support() {
  NcclSupport support;
  const collective::NcclApi* const api = collective::NcclApi::find(&support.problem);
  support.loaded = api != nullptr;
  if (support.loaded) support.version = api->version;
  if (!support.loaded)
    support.how_to_get =
        "install libnccl2 of NVIDIA's apt repository or nvidia-nccl from PyPI, and put the folder "
        "of libnccl.so.2 on LD_LIBRARY_PATH or name the file in MILLRACE_NCCL";
  return support;
}

}  // namespace millrace
