#include <nlohmann/json.hpp>

#include "doctor/findings.hpp"
#include "millrace/config.hpp"
#include "millrace/streamer/sink_kinds.hpp"

namespace millrace::cli {
namespace {

using Json = nlohmann::ordered_json;

Json known(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json library(const LibraryFacts& facts) {
  return {{"path", known(facts.path)},
          {"version", known(facts.version)},
          {"problem", known(facts.problem)}};
}

Json gpu(const GpuFacts& facts) {
  const CudaDeviceInfo& info = facts.info;
  return {{"title", info.title},
          {"pci_bus", info.pci_bus},
          {"compute_capability", {info.compute_major, info.compute_minor}},
          {"memory_bytes", info.memory_bytes},
          {"free_bytes", facts.state.memory.free},
          {"code", facts.state.code},
          {"multiprocessors", info.multiprocessors},
          {"copy_engines", info.copy_engines},
          {"virtual_memory", info.virtual_memory},
          {"page_bytes", info.page_bytes},
          {"memory_pools", info.memory_pools},
          {"problem", known(facts.problem)}};
}

Json choice(const DeviceChoice& device) {
  return {{"name", device.name},
          {"works", device.works},
          {"modeled", device.modeled},
          {"problem", known(device.problem)},
          {"remedy", known(device.remedy)},
          {"trains", device.trains},
          {"lacking", known(device.lacking)},
          {"training_remedy", known(device.training_remedy)}};
}

}  // namespace

nlohmann::ordered_json to_document(const MachineFacts& facts) {
  Json document{{"schema", "millrace.doctor/1"}, {"version", MILLRACE_VERSION}};
  document["build"] = {{"cuda", facts.cuda.toolkit != 0},
                       {"cuda_toolkit", known(version_text(facts.cuda.toolkit))},
                       {"architectures", facts.architectures}};
  document["cuda_runtime"] = known(version_text(facts.cuda.runtime));
  document["driver"] = library(facts.driver.library);
  document["driver"]["cuda"] = known(version_text(facts.driver.cuda));
  document["driver"]["module"] = known(facts.driver.module);
  document["gpus"] = Json::array();
  for (const GpuFacts& each : facts.gpus) document["gpus"].push_back(gpu(each));
  document["no_gpu"] = known(facts.no_gpu);
  document["peer_access"] = facts.peers;
  document["cublas"] = library(facts.cublas);
  document["cublas"]["remedy"] = known(cublas_remedy(facts));
  document["nccl"] = library(facts.nccl);
  document["nccl"]["remedy"] = known(nccl_remedy(facts));
  document["sinks"] = Json::array();
  for (const SinkKind& each : sink_kinds()) {
    document["sinks"].push_back({{"name", each.name},
                                 {"address", each.address},
                                 {"keeps_rows_in", each.summary},
                                 {"built", each.built()},
                                 {"remedy", known(sink_remedy(each))}});
  }
  document["devices"] = Json::array();
  for (const DeviceChoice& each : device_choices(facts))
    document["devices"].push_back(choice(each));
  return document;
}

}  // namespace millrace::cli
