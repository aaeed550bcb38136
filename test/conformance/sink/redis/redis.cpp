#include <signal.h>

#include "millrace/streamer/sink.hpp"
#include "test/conformance/sink/sink_conformance.hpp"
#include "test/support/redis_server.hpp"

namespace millrace::test {
namespace {

/// One server serves all tests of this process. Each place has its own keys.
class RedisPlace final : public SinkPlace {
 public:
  RedisPlace() {
    static unsigned places = 0;
    prefix_ = "place-" + std::to_string(places++);
    static_cast<void>(server());  // it ends with the thread that starts it
  }

  std::unique_ptr<Sink> open() override { return open_sink(server().spec(prefix_)); }
  std::string spec() const override { return server().spec(prefix_); }
  void fall_silent() override { server().signal(SIGSTOP); }
  void speak() override { server().signal(SIGCONT); }

 private:
  static RedisServer& server() {
    static RedisServer one;
    return one;
  }

  std::string prefix_;
};

const bool added = add_sink_fixture({.name = "redis",
                                     .make_place = [] { return std::make_unique<RedisPlace>(); },
                                     .rivals = true,
                                     .has_peer = true,
                                     .absent = no_redis_server()});

}  // namespace
}  // namespace millrace::test
