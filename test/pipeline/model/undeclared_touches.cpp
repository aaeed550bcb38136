#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <set>
#include <string>

#include "millrace/pipeline/model/sparse_nn.hpp"
#include "millrace/pipeline/schedule/local_exchange.hpp"
#include "test/pipeline/model/small_model.hpp"
#include "test/support/catch.hpp"
#include "test/support/forwarding_device.hpp"
#include "test/support/model_bench.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// One view of one operation. The test declares only half of its bytes.
struct Narrowed {
  std::string operation;
  std::size_t view = 0;
};

class NarrowingDevice final : public test::ForwardingDevice {
 public:
  NarrowingDevice(VirtualDevice& device, Narrowed narrowed)
      : test::ForwardingDevice(device), narrowed_(std::move(narrowed)) {}

  /// The operations that ran, each with its number of views.
  [[nodiscard]] const std::map<std::string, std::size_t>& ran() const noexcept { return ran_; }

 private:
  void do_launch(Operation operation, StreamHandle stream) override {
    std::size_t& views = ran_[operation.name];
    views = std::max(views, operation.views.size());
    if (operation.name == narrowed_.operation && narrowed_.view < operation.views.size()) {
      std::size_t& bytes = operation.views[narrowed_.view].bytes;
      bytes = bytes / 16 * 8;
    }
    test::ForwardingDevice::do_launch(std::move(operation), stream);
  }

  const Narrowed narrowed_;
  std::map<std::string, std::size_t> ran_;
};

SparseNNConfig model(Interaction interaction, OptimizerKind of_tables) {
  SparseNNConfig config = small_model(of_tables);
  config.interaction = interaction;
  return config;
}

/// Two training steps of a model on its own device, with an exchange that permutes its features.
std::map<std::string, std::size_t> train(const Narrowed& narrowed, Interaction interaction,
                                         OptimizerKind of_tables) {
  VirtualMachine machine;
  NarrowingDevice device{machine.add_device({.memory_bytes = std::size_t{1} << 26}), narrowed};
  {
    OrderedDevice ordered{device};
    Stream main{ordered, {.name = "main"}};
    DeviceSource source{device};
    CachingAllocator allocator{ordered, source, Policy::millrace()};
    ModelContext context{allocator, main};
    ModelMemory memory{allocator, main};
    SparseNN network{context, model(interaction, of_tables)};
    LocalExchange exchange{allocator, {"u", "bought", "seen"}, {"t"}};
    std::mt19937_64 random{seed()};
    for (int step = 0; step < 2; ++step) {
      constexpr std::size_t kBatch = 32;
      HostExamples examples{.dense_features = 3,
                            .dense = std::vector<float>(3 * kBatch, 0.5F),
                            .labels = std::vector<float>(kBatch, 1.0F)};
      examples.sparse = draw_bags(random, {"seen", "u", "bought"}, {60, 40, 60}, kBatch, 4, false);
      examples.weighted = draw_bags(random, {"t"}, {20}, kBatch, 3, true);
      const InputTensors input = memory.upload(examples);
      train_plainly(network, main, input, exchange.start(input, main)->arrange());
    }
    static_cast<void>(network.loss());
    main.synchronize();
  }
  return device.ran();
}

struct Variant {
  Interaction interaction;
  OptimizerKind of_tables;
};
constexpr Variant kVariants[] = {{Interaction::dot, OptimizerKind::rowwise_adagrad},
                                 {Interaction::concatenate, OptimizerKind::adam},
                                 {Interaction::dot, OptimizerKind::sgd},
                                 {Interaction::concatenate, OptimizerKind::adagrad}};

#if defined(__SANITIZE_ADDRESS__)
/// True if AddressSanitizer ends a process that trains with this narrowed view.
bool found(const Narrowed& narrowed, const Variant& variant) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) ::_exit(0);
    try {
      static_cast<void>(train(narrowed, variant.interaction, variant.of_tables));
    } catch (...) {
      ::_exit(2);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  constexpr int kByDefault = 1;  // ASan's default exit code
  return WIFEXITED(status) && WEXITSTATUS(status) == kByDefault;
}
#endif

}  // namespace

TEST_CASE("the operations of a SparseNN are those of the list") {
  std::set<std::string> names;
  for (const Variant& variant : kVariants) {
    for (const auto& [name, views] : train({}, variant.interaction, variant.of_tables)) {
      names.insert(name);
    }
  }
  CHECK(names == std::set<std::string>{"concatenate",
                                       "concatenate backward",
                                       "factor gradients",
                                       "find runs",
                                       "initialize",
                                       "initialize table",
                                       "interact",
                                       "interact backward",
                                       "linear",
                                       "linear backward",
                                       "linearize",
                                       "look up",
                                       "loss",
                                       "offsets from lengths",
                                       "permute",
                                       "position weights",
                                       "position weights backward",
                                       "sort",
                                       "step",
                                       "update tables"});
}

TEST_CASE("under AddressSanitizer an operation that accesses an undeclared view is found") {
#if defined(__SANITIZE_ADDRESS__)
  const std::set<std::string> fill_what_is_declared{"initialize", "initialize table"};
  for (const Variant& variant : {kVariants[0], kVariants[1]}) {
    for (const auto& [name, views] : train({}, variant.interaction, variant.of_tables)) {
      bool any = false;
      for (std::size_t view = 0; view < views && !any; ++view) any = found({name, view}, variant);
      INFO(name);
      CHECK(any == !fill_what_is_declared.contains(name));
    }
  }
#else
  SKIP("built without AddressSanitizer");
#endif
}
