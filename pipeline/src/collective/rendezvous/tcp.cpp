#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "collective/rendezvous/socket.hpp"
#include "millrace/pipeline/collective/rendezvous.hpp"

namespace millrace {
namespace {

using collective::Deadline;
using collective::Socket;
using Clock = std::chrono::steady_clock;
using Bytes = std::vector<std::byte>;

/** A message on a connection: a kind, a rank, a length, and that many bytes. */
struct Frame {
  enum class Kind : std::uint32_t { hello, shared, failed, leaves };
  struct Head {
    Kind kind;
    std::uint32_t rank, bytes;
  };
  Kind kind;
  unsigned rank;
  Bytes bytes;
};

/** Longest frame that a rank accepts. What ranks share, such as a communicator's name, is shorter.
 */
constexpr std::uint32_t kMostBytes = 16U << 20;
/** Connections of other programs that rank 0 keeps at a time. It closes the oldest. */
constexpr std::size_t kMostStrangers = 64;
/** How long `share` waits at a time. */
constexpr auto kMoment = std::chrono::milliseconds{20};

/** The connection to one other rank, with the received frames that were not taken yet. */
class Peer {
 public:
  Peer() = default;
  explicit Peer(Socket socket) : socket_(std::move(socket)) {}

  [[nodiscard]] const Socket& socket() const noexcept { return socket_; }
  /** Returns the rank that this connection belongs to, if it says so now. A program that is not a
   * rank of a job may connect, too; then the connection is `gone`. */
  std::optional<unsigned> hello() {
    const std::optional<Frame> first = receive(Clock::now(), 0);
    if (!first) return {};
    gone_ = first->kind != Frame::Kind::hello;
    return gone_ ? std::nullopt : std::optional{first->rank};
  }

  bool send(Frame::Kind kind, unsigned rank, std::span<const std::byte> bytes) noexcept {
    if (!socket_.open()) return false;
    const Frame::Head head{kind, rank, static_cast<std::uint32_t>(bytes.size())};
    return socket_.send(std::as_bytes(std::span{&head, 1})) && socket_.send(bytes);
  }

  /** Returns the next frame, if it arrives before the deadline. A longer one than `most` ends the
   * connection. */
  std::optional<Frame> receive(Deadline until, std::uint32_t most = kMostBytes) {
    for (;;) {
      if (auto frame = take(most)) return frame;
      if (gone_ || !socket_.open()) return {};
      switch (socket_.receive(unread_, until)) {
        case Socket::Came::something:
          continue;
        case Socket::Came::nothing:
          return {};
        case Socket::Came::end:
          gone_ = true;
          return take(most);
      }
    }
  }

  /** Returns whether the other end has closed the connection. */
  [[nodiscard]] bool gone() const noexcept { return gone_; }

  bool left = false;  ///< the rank has announced that it leaves

 private:
  std::optional<Frame> take(std::uint32_t most) {
    Frame::Head head{};
    if (unread_.size() < sizeof(head)) return {};
    std::memcpy(&head, unread_.data(), sizeof(head));
    if (head.bytes > most) {
      gone_ = true;
      return {};
    }
    if (unread_.size() < sizeof(head) + head.bytes) return {};
    const auto body = unread_.begin() + sizeof(head);
    Frame frame{head.kind, head.rank, Bytes(body, body + head.bytes)};
    unread_.erase(unread_.begin(), body + head.bytes);
    return frame;
  }

  Socket socket_;
  Bytes unread_;
  bool gone_ = false;
};

/** A star: every rank is connected to rank 0, which forwards failures to all ranks. */
class TcpRendezvous final : public Rendezvous {
 public:
  TcpRendezvous(const std::string& host, std::uint16_t port, unsigned rank, unsigned size,
                const Options& options)
      : Rendezvous(rank, size),
        where_(fmt::format("{}:{}", host, port)),
        time_out_(options.time_out),
        exceptions_(std::uncaught_exceptions()),
        peers_(size),
        shared_(size) {
    const Deadline until = Clock::now() + time_out_;
    if (rank == 0) {
      await_all(port, until);
    } else {
      Socket to_first = Socket::connect(host, port, until);
      if (!to_first.open()) throw has_not_come(0);
      peers_[0] = Peer{std::move(to_first)};
      static_cast<void>(peers_[0].send(Frame::Kind::hello, rank, {}));
    }
  }

  ~TcpRendezvous() override {
    if (std::uncaught_exceptions() > exceptions_) {
      report_failure({rank(), fmt::format("rank {} failed: an exception ended it", rank())});
    }
    // A connection that closes without this message means that the rank was killed.
    for (Peer& peer : peers_) static_cast<void>(peer.send(Frame::Kind::leaves, rank(), {}));
  }

  void share(std::span<std::byte> bytes) override {
    if (bytes.size() > kMostBytes) {
      throw std::invalid_argument{
          fmt::format("{} bytes cannot be shared (expected at most {})", bytes.size(), kMostBytes)};
    }
    const std::lock_guard turn{sharing_};
    std::unique_lock lock{mutex_};
    const Deadline until = Clock::now() + time_out_;
    if (rank() == 0) {
      // Rank 0 sends the bytes only after all ranks have come, so `share` is also a barrier.
      for (unsigned peer = 1; peer < size(); ++peer) static_cast<void>(next_of(peer, until, lock));
      for (unsigned peer = 1; peer < size(); ++peer) {
        static_cast<void>(peers_[peer].send(Frame::Kind::shared, 0, bytes));
      }
      return;
    }
    static_cast<void>(peers_[0].send(Frame::Kind::shared, rank(), {}));
    const Bytes got = next_of(0, until, lock);
    if (got.size() != bytes.size()) {
      throw CollectiveError{0, fmt::format("rank 0 shares {} bytes, and rank {} expects {}",
                                           got.size(), rank(), bytes.size())};
    }
    std::ranges::copy(got, bytes.begin());
  }

  void report_failure(const Failure& failure) noexcept override {
    const std::lock_guard lock{mutex_};
    record(failure);
  }

  std::optional<Failure> failure() override {
    const std::lock_guard lock{mutex_};
    for (unsigned peer = 0; peer < size(); ++peer) listen(peer, Clock::now());
    return failure_;
  }

 private:
  [[nodiscard]] CollectiveError has_not_come(unsigned rank_late) const {
    return {rank_late, fmt::format("rank {} has not come to {} within {} ms", rank_late, where_,
                                   time_out_.count())};
  }

  void await_all(std::uint16_t port, Deadline until) {
    const Socket listening = Socket::listen(port);
    std::vector<bool> here(size(), false);
    std::vector<Peer> unknown;  // all are heard at once: a silent one must not hold up a rank
    here[0] = true;
    while (std::ranges::find(here, false) != here.end()) {
      const auto late = static_cast<unsigned>(std::ranges::find(here, false) - here.begin());
      std::vector<const Socket*> sockets{&listening};
      for (const Peer& peer : unknown) sockets.push_back(&peer.socket());
      if (!Socket::await_any(sockets, until) || Clock::now() >= until) throw has_not_come(late);
      if (Socket socket = listening.accept(Clock::now()); socket.open()) {
        unknown.emplace_back(std::move(socket));
        if (unknown.size() > size() + kMostStrangers) unknown.erase(unknown.begin());
      }
      std::erase_if(unknown, [&](Peer& peer) {
        const std::optional<unsigned> from = peer.hello();
        if (!from) return peer.gone();
        if (*from < size() && !here[*from]) {  // otherwise it is not a rank of this job
          here[*from] = true;
          peers_[*from] = std::move(peer);
        }
        return true;
      });
    }
  }

  /** Call it with the lock. Keeps the first failure and forwards it to all other ranks. */
  void record(const Failure& failure) noexcept {
    if (failure_) return;
    failure_ = failure;
    const auto why = std::as_bytes(std::span{failure.why});
    for (Peer& peer : peers_) {
      static_cast<void>(peer.send(Frame::Kind::failed, failure.rank, why));
    }
  }

  /** Processes the frames of `peer` that arrive before the deadline. */
  void listen(unsigned number, Deadline until) {
    Peer& peer = peers_[number];
    while (const std::optional<Frame> frame = peer.receive(until)) {
      until = Clock::now();
      if (frame->kind == Frame::Kind::shared) shared_[number].push_back(frame->bytes);
      if (frame->kind == Frame::Kind::leaves) peer.left = true;
      if (frame->kind == Frame::Kind::failed) {
        const auto* const text = reinterpret_cast<const char*>(frame->bytes.data());
        record({frame->rank, {text, frame->bytes.size()}});
      }
    }
    if (peer.gone() && !peer.left) {
      record({number, fmt::format("rank {} is gone: it closed its connection", number)});
    }
  }

  /** Waits without the lock, so that `failure` does not block. */
  Bytes next_of(unsigned peer, Deadline until, std::unique_lock<std::mutex>& lock) {
    while (shared_[peer].empty()) {
      // Listens to all ranks, because the failure of any rank ends the wait.
      for (unsigned other = 0; other < size(); ++other) listen(other, Clock::now());
      if (failure_) throw CollectiveError{failure_->rank, failure_->why};
      if (!shared_[peer].empty()) break;
      if (peers_[peer].left) {
        throw CollectiveError{
            peer, fmt::format("rank {} has left, and rank {} waits for it", peer, rank())};
      }
      if (Clock::now() >= until) throw has_not_come(peer);
      std::vector<const Socket*> sockets;
      for (const Peer& other : peers_) {
        // The connection of a rank that has left would always be ready.
        if (other.socket().open() && !other.gone()) sockets.push_back(&other.socket());
      }
      lock.unlock();
      static_cast<void>(Socket::await_any(sockets, std::min(until, Clock::now() + kMoment)));
      lock.lock();
    }
    Bytes next = std::move(shared_[peer].front());
    shared_[peer].pop_front();
    return next;
  }

  const std::string where_;
  const std::chrono::milliseconds time_out_;
  const int exceptions_;
  std::mutex sharing_;  ///< one `share` at a time; taken before `mutex_`
  std::mutex mutex_;
  std::vector<Peer> peers_;  ///< on rank 0: all other ranks; on other ranks: rank 0
  std::vector<std::deque<Bytes>> shared_;
  std::optional<Failure> failure_;
};

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  if (value != nullptr) return value;
  throw std::runtime_error{fmt::format(
      "{} is not set: torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT", name)};
}

unsigned number(const char* name, unsigned most) {
  const std::string text = environment(name);
  std::size_t read = 0;
  unsigned long value = 0;
  try {
    value = std::stoul(text, &read);
  } catch (const std::logic_error&) {
    read = 0;
  }
  if (read == 0 || read != text.size() || value > most) {
    throw std::runtime_error{
        fmt::format("{} is '{}' (expected a number up to {})", name, text, most)};
  }
  return static_cast<unsigned>(value);
}

}  // namespace

std::unique_ptr<Rendezvous> Rendezvous::over_tcp(const std::string& host, std::uint16_t port,
                                                 unsigned rank, unsigned size,
                                                 const Options& options) {
  return std::make_unique<TcpRendezvous>(host, port, rank, size, options);
}

std::unique_ptr<Rendezvous> Rendezvous::from_environment(const Options& options) {
  constexpr unsigned kMostPort = 65'534, kMostRanks = 1U << 20;
  // torchrun's agent then listens at MASTER_PORT itself, so the ranks use the next port.
  const char* const agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  const unsigned taken = agent != nullptr && std::strcmp(agent, "True") == 0 ? 1 : 0;
  const auto port = static_cast<std::uint16_t>(number("MASTER_PORT", kMostPort) + taken);
  return over_tcp(environment("MASTER_ADDR"), port, number("RANK", kMostRanks),
                  number("WORLD_SIZE", kMostRanks), options);
}

}  // namespace millrace
