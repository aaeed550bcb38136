#include "sink/rocksdb/rocksdb_sink.hpp"
#include "test/conformance/sink/sink_conformance.hpp"
#include "test/support/temporary_folder.hpp"

namespace millrace::test {
namespace {

class RocksdbPlace final : public SinkPlace {
 public:
  std::unique_ptr<Sink> open() override {
    return std::make_unique<sink::RocksdbSink>(
        sink::RocksdbOptions{.folder = folder_.path() / "rows"});
  }
  std::string spec() const override { return "rocksdb:" + (folder_.path() / "rows").string(); }

 private:
  TemporaryFolder folder_;
};

const bool added = add_sink_fixture({.name = "rocksdb",
                                     .make_place = [] { return std::make_unique<RocksdbPlace>(); },
                                     .whole_steps = true,
                                     .rivals = true,
                                     .programs = 4});

}  // namespace
}  // namespace millrace::test
