#include "millrace/pipeline/collective/rendezvous.hpp"

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using Make = std::function<std::unique_ptr<Rendezvous>(unsigned rank, unsigned size,
                                                       std::chrono::milliseconds time_out)>;

/// A TCP port that was free at the time of the call.
std::uint16_t free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  socklen_t length = sizeof(any);
  ::bind(socket, reinterpret_cast<sockaddr*>(&any), length);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&any), &length);
  ::close(socket);
  return ntohs(any.sin_port);
}

struct Folder {
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "millrace-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

/// Runs `body` over TCP and over a file, each with a new meeting place.
void over_both(const std::function<void(const Make&)>& body) {
  SECTION("TCP") {
    const std::uint16_t port = free_port();
    body([port](unsigned rank, unsigned size, std::chrono::milliseconds time_out) {
      return Rendezvous::over_tcp("localhost", port, rank, size, {time_out});
    });
  }
  SECTION("a file") {
    const Folder folder;
    body([&](unsigned rank, unsigned size, std::chrono::milliseconds time_out) {
      return Rendezvous::over_file(folder.path / "meet", rank, size, {time_out});
    });
  }
}

/// Runs `body` on one thread per rank. Returns each rank's exception text, "" if it threw nothing.
std::vector<std::string> on_threads(unsigned ranks, const std::function<void(unsigned)>& body) {
  std::vector<std::string> thrown(ranks);
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        thrown[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

constexpr auto kLong = std::chrono::seconds{60};

}  // namespace

namespace {

/// A connection of a program that is no rank of the job.
class Stranger {
 public:
  explicit Stranger(std::uint16_t port) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int tries = 0; tries < 10'000; ++tries) {  // rank 0 may not listen yet
      socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
      if (::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) return;
      ::close(socket_);
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    throw std::runtime_error{"rank 0 does not listen"};
  }
  ~Stranger() { ::close(socket_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  void send(std::span<const std::uint32_t> words) const {
    static_cast<void>(::send(socket_, words.data(), words.size_bytes(), MSG_NOSIGNAL));
  }

 private:
  int socket_ = -1;
};

}  // namespace

TEST_CASE("ranks meet although another program is connected and silent, or sends anything") {
  const std::uint16_t port = free_port();
  const std::vector<std::uint32_t> sent =
      GENERATE(std::vector<std::uint32_t>{},                            // nothing
               std::vector<std::uint32_t>{7},                           // a part of a head
               std::vector<std::uint32_t>{0, 1, 0xFFFF'FFFF, 1, 2},     // a hello of 4 GiB
               std::vector<std::uint32_t>{1, 1, 0xFFFF'FFFF, 1, 2, 3},  // something else of 4 GiB
               std::vector<std::uint32_t>{0, 99, 0});  // the hello of a rank there is not
  std::unique_ptr<Rendezvous> first, second;
  std::future<void> rank_0;  // ends when the stranger is gone, if not before
  const auto hour = std::chrono::hours{1};
  rank_0 = std::async(std::launch::async,
                      [&] { first = Rendezvous::over_tcp("localhost", port, 0, 2, {hour}); });
  const Stranger stranger{port};
  stranger.send(sent);
  std::this_thread::sleep_for(std::chrono::milliseconds{20});  // rank 0 accepts it first
  second = Rendezvous::over_tcp("localhost", port, 1, 2, {hour});
  REQUIRE(rank_0.wait_for(std::chrono::seconds{30}) == std::future_status::ready);
  rank_0.get();
  std::array<std::byte, 1> of_first{std::byte{7}}, of_second{};
  std::thread sharing{[&] { first->share(of_first); }};
  second->share(of_second);
  sharing.join();
  CHECK(of_second == of_first);
}

TEST_CASE("failure() does not wait for a rank that shares") {
  const std::uint16_t port = free_port();
  std::array<std::unique_ptr<Rendezvous>, 2> ranks;
  on_threads(2, [&](unsigned rank) {
    ranks[rank] = Rendezvous::over_tcp("localhost", port, rank, 2, {std::chrono::seconds{10}});
  });
  std::array<std::byte, 4> shared{};
  std::string thrown;
  std::atomic<bool> begun{false};
  std::thread sharing{[&] {
    begun = true;
    try {
      ranks[0]->share(shared);
    } catch (const std::exception& error) {
      thrown = error.what();
    }
  }};
  while (!begun) std::this_thread::yield();
  // Rank 1 shares only after this call, which comes back although rank 0 shares.
  for (int calls = 0; calls < 20; ++calls) {
    CHECK_FALSE(ranks[0]->failure());
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }
  ranks[1]->share(shared);
  sharing.join();
  CHECK(thrown.empty());
}

TEST_CASE("data that rank 0 shares reaches every rank, round after round") {
  over_both([](const Make& make) {
    constexpr unsigned kRanks = 4;
    std::array<std::vector<int>, kRanks> got;
    const auto thrown = on_threads(kRanks, [&](unsigned rank) {
      const auto meet = make(rank, kRanks, kLong);
      for (int round = 0; round < 3; ++round) {
        int value = rank == 0 ? 100 + round : 0;
        meet->share(std::as_writable_bytes(std::span{&value, 1}));
        got[rank].push_back(value);
      }
    });
    CHECK(thrown == std::vector<std::string>(kRanks));
    for (const auto& values : got) CHECK(values == std::vector{100, 101, 102});
  });
}

TEST_CASE("the failure that a rank reports is thrown in the ranks that wait") {
  over_both([](const Make& make) {
    const auto thrown = on_threads(3, [&](unsigned rank) {
      const auto meet = make(rank, 3, kLong);
      int value = 0;
      if (rank == 1) meet->report_failure({1, "rank 1 failed: no disk"});
      if (rank == 1) return;
      meet->share(std::as_writable_bytes(std::span{&value, 1}));
    });
    CHECK(thrown[0] == "rank 1 failed: no disk");
    CHECK(thrown[2] == "rank 1 failed: no disk");
  });
}

TEST_CASE("a rank that does not arrive before the timeout is named") {
  over_both([](const Make& make) {
    const auto thrown = on_threads(1, [&](unsigned) {
      const auto meet = make(0, 2, std::chrono::milliseconds{200});
      int value = 0;
      meet->share(std::as_writable_bytes(std::span{&value, 1}));
    });
    CHECK_THAT(thrown[0], ContainsSubstring("rank 1 has not come"));
  });
}

TEST_CASE("over TCP an exception in a rank is an error for the other ranks") {
  const std::uint16_t port = free_port();
  const auto thrown = on_threads(3, [&](unsigned rank) {
    const auto meet = Rendezvous::over_tcp("localhost", port, rank, 3, {kLong});
    int value = 0;
    const auto bytes = std::as_writable_bytes(std::span{&value, 1});
    meet->share(bytes);
    if (rank == 2) throw std::runtime_error{"out of luck"};
    meet->share(bytes);
  });
  CHECK(thrown[0] == "rank 2 failed: an exception ended it");
  CHECK(thrown[1] == "rank 2 failed: an exception ended it");
}

TEST_CASE("a TCP port that is already in use is reported as an error") {
  const int socket = ::socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  socklen_t length = sizeof(any);
  if (::bind(socket, reinterpret_cast<sockaddr*>(&any), length) != 0) SKIP("there is no IPv6");
  ::listen(socket, 1);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&any), &length);
  CHECK_THROWS_WITH(Rendezvous::over_tcp("localhost", ntohs(any.sin6_port), 0, 2, {kLong}),
                    ContainsSubstring("cannot listen at port"));
  ::close(socket);
}

TEST_CASE("a rendezvous reads torchrun's environment and names a missing variable") {
  ::unsetenv("MASTER_ADDR");
  ::setenv("MASTER_PORT", std::to_string(free_port()).c_str(), 1);
  ::setenv("RANK", "0", 1);
  ::setenv("WORLD_SIZE", "1", 1);
  CHECK_THROWS_WITH(Rendezvous::from_environment({kLong}), ContainsSubstring("MASTER_ADDR"));
  ::setenv("MASTER_ADDR", "localhost", 1);
  CHECK(Rendezvous::from_environment({kLong})->size() == 1);
  ::setenv("RANK", "first", 1);
  CHECK_THROWS_WITH(Rendezvous::from_environment({kLong}), ContainsSubstring("RANK is 'first'"));
  for (const char* const name : {"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"}) {
    ::unsetenv(name);
  }
}

}  // namespace millrace::test
