#include "millrace/device/machine_facts.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "device/shared_library.hpp"

namespace millrace {
namespace {

using Query = int(int*);  // cuDriverGetVersion, ncclGetVersion: 0 is success in both

int ask(const SharedLibrary& library, const char* function) {
  int version = 0;
  auto* const query = library.find<Query>(function);
  return query != nullptr && query(&version) == 0 ? version : 0;
}

LibraryFacts facts_of(const SharedLibrary& library, const char* name) {
  return {name, library.path(), {}, library.problem()};
}

/** Returns the version in a file name: libcuda.so.580.65.06 -> 580.65.06. */
std::string version_in(const std::string& path) {
  const auto at = path.rfind(".so.");
  const std::string version = at == std::string::npos ? "" : path.substr(at + 4);
  return version.find('.') == std::string::npos ? "" : version;
}

std::string module_version() {
  std::ifstream file{"/sys/module/nvidia/version"};
  std::string version;
  std::getline(file, version);
  return version;
}

DriverFacts look_for_driver() {
  constexpr const char* name = "libcuda.so.1";
  const SharedLibrary library{name};
  DriverFacts facts{facts_of(library, name), ask(library, "cuDriverGetVersion"), module_version()};
  facts.library.version = version_in(facts.library.path);
  return facts;
}

/** Formats the code of nccl.h: 22703 for 2.27.3; up to version 2.8 it was 2804 for 2.8.4. */
std::string nccl_version(int code) {
  if (code == 0) return {};
  const int major = code >= 10000 ? 10000 : 1000;
  return fmt::format("{}.{}.{}", code / major, code % major / 100, code % 100);
}

/** Returns the file that the environment variable names, like the code that loads the library. */
std::string named_by(const char* variable, const std::string& otherwise) {
  const char* const given = std::getenv(variable);
  return given != nullptr ? given : otherwise;
}

LibraryFacts look_for_cublas(int toolkit) {
  if (toolkit == 0) return {.name = "libcublas"};
  const std::string name =
      named_by("MILLRACE_CUBLAS", fmt::format("libcublas.so.{}", toolkit / 1000));
  const SharedLibrary library{name.c_str()};
  LibraryFacts facts = facts_of(library, name.c_str());
  facts.version = version_in(facts.path);
  return facts;
}

LibraryFacts look_for_nccl() {
  const std::string name = named_by("MILLRACE_NCCL", "libnccl.so.2");
  const SharedLibrary library{name.c_str()};
  LibraryFacts facts = facts_of(library, name.c_str());
  facts.version = nccl_version(ask(library, "ncclGetVersion"));
  return facts;
}

GpuFacts look_at_gpu(int ordinal) {
  GpuFacts facts;
  try {
    facts.info = cuda_device_info(ordinal);
    facts.state = cuda_device_state(ordinal);
    facts.problem = facts.state.code_problem;
  } catch (const DeviceError& error) {
    facts.problem = error.what();
  }
  return facts;
}

bool reaches(int from, int to) {
  try {
    return cuda_peer_access(from, to);
  } catch (const DeviceError&) {
    return false;
  }
}

}  // namespace

MachineFacts machine_facts() {
  MachineFacts facts;
  facts.cuda = cuda_versions();
  facts.architectures = cuda_architectures();
  facts.driver = look_for_driver();
  facts.cublas = look_for_cublas(facts.cuda.toolkit);
  facts.nccl = look_for_nccl();
  const CudaDeviceCount devices = cuda_device_count();
  facts.no_gpu = devices.reason;
  for (int ordinal = 0; ordinal < devices.count; ++ordinal) {
    facts.gpus.push_back(look_at_gpu(ordinal));
    auto& row = facts.peers.emplace_back();
    for (int to = 0; to < devices.count; ++to) row.push_back(reaches(ordinal, to));
  }
  return facts;
}

}  // namespace millrace
