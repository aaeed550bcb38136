#include "collective/mpi/transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "millrace/pipeline/collective/collective_error.hpp"

namespace millrace::collective {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kHeaderTag = 1, kFailedTag = 2, kLeftTag = 3, kBytesTags = 16;
constexpr std::uint64_t kTags = 16'384;  // every MPI supports tags up to 32767
constexpr std::size_t kMostOfAMessage = std::size_t{1} << 30;  // MPI counts bytes in int
// After that, the thread sleeps between checks.
constexpr auto kSpin = std::chrono::microseconds{200};
constexpr auto kPatienceToTell = std::chrono::seconds{2};

struct Header {
  std::uint64_t number = 0, bytes = 0;
  char what[32] = {};
};

/** Exchanges that are in progress at once have different tags for their bytes. */
int bytes_tag(std::uint64_t number) { return kBytesTags + static_cast<int>(number % kTags); }

Header header_of(const char* what, std::uint64_t number, std::size_t bytes) {
  Header header{number, bytes, {}};
  std::strncpy(header.what, what, sizeof(header.what) - 1);
  return header;
}

}  // namespace

/** Exchanges bytes with each other rank: headers first. */
class MpiTransport::Exchange final : public PendingBlocks {
 public:
  Exchange(MpiTransport& transport, const char* what, const Blocks& blocks)
      : transport_(transport),
        what_(what),
        number_(transport.started_++),
        blocks_(blocks),
        sent_(transport.size_),
        received_(transport.size_),
        headers_(transport.size_, MPI_REQUEST_NULL),
        receives_(transport.size_) {
    for (unsigned peer = 0; peer < transport_.size_; ++peer) {
      // Receives come first, so that a header that arrives has a buffer.
      if (peer != transport_.rank_) receive_from(peer);
    }
    for (unsigned peer = 0; peer < transport_.size_; ++peer) {
      if (peer != transport_.rank_) send_to(peer);
    }
  }

  // An abandoned exchange must not write to its buffers any more. MPI may still read the bytes
  // being sent.
  ~Exchange() override {
    for (MPI_Request& request : headers_) cancel(request);
    for (auto& requests : receives_) {
      for (MPI_Request& request : requests) cancel(request);
    }
    for (MPI_Request& request : sends_) {
      if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    }
  }

  void wait() override {
    const unsigned me = transport_.rank_;
    // A rank's block for itself is not sent.
    std::ranges::copy(blocks_.sends[me], blocks_.receives[me].begin());
    const auto since = Clock::now();
    while (!done()) {
      transport_.check();
      check_who_left();
      const auto waited = Clock::now() - since;
      if (waited > transport_.time_out_) give_up();
      if (waited > kSpin) std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
  }

 private:
  void receive_from(unsigned peer) {
    const auto from = static_cast<int>(peer);
    check_mpi(MPI_Irecv(&received_[peer], sizeof(Header), MPI_BYTE, from, kHeaderTag,
                        transport_.data_, &headers_[peer]),
              "MPI_Irecv");
  }

  void send_to(unsigned peer) {
    const auto to = static_cast<int>(peer);
    sent_[peer] = header_of(what_, number_, blocks_.sends[peer].size());
    send(&sent_[peer], sizeof(Header), to, kHeaderTag);
    const std::span<const std::byte> bytes = blocks_.sends[peer];
    for (std::size_t at = 0; at < bytes.size(); at += kMostOfAMessage) {
      send(bytes.data() + at, std::min(kMostOfAMessage, bytes.size() - at), to, bytes_tag(number_));
    }
  }

  void send(const void* from, std::size_t bytes, int to, int tag) {
    check_mpi(MPI_Isend(from, static_cast<int>(bytes), MPI_BYTE, to, tag, transport_.data_,
                        &sends_.emplace_back()),
              "MPI_Isend");
  }

  /** Receives the bytes once the header shows that they are the expected ones. */
  void take_header(unsigned peer) {
    const Header& header = received_[peer];
    if (header.number != number_ || std::strcmp(header.what, what_) != 0) {
      transport_.record_failure(
          transport_.rank_,
          fmt::format("ranks are out of step: rank {} is at {} {}, rank {} at {} {}",
                      transport_.rank_, what_, number_, peer, header.what, header.number),
          true);
      transport_.throw_failure();
    }
    const std::span<std::byte> room = blocks_.receives[peer];
    if (header.bytes != room.size()) {
      transport_.record_failure(
          transport_.rank_,
          fmt::format("{}: rank {} sends {} bytes to rank {}, which expects {}", what_, peer,
                      header.bytes, transport_.rank_, room.size()),
          true);
      transport_.throw_failure();
    }
    for (std::size_t at = 0; at < room.size(); at += kMostOfAMessage) {
      const std::size_t bytes = std::min(kMostOfAMessage, room.size() - at);
      check_mpi(
          MPI_Irecv(room.data() + at, static_cast<int>(bytes), MPI_BYTE, static_cast<int>(peer),
                    bytes_tag(number_), transport_.data_, &receives_[peer].emplace_back()),
          "MPI_Irecv");
    }
  }

  bool done() {
    bool all = true;
    for (unsigned peer = 0; peer < transport_.size_; ++peer) {
      if (headers_[peer] != MPI_REQUEST_NULL) {
        if (!test(headers_[peer])) {
          all = false;
          continue;
        }
        take_header(peer);
      }
      for (MPI_Request& request : receives_[peer]) all = test(request) && all;
    }
    for (MPI_Request& request : sends_) all = test(request) && all;
    return all;
  }

  static bool test(MPI_Request& request) {
    if (request == MPI_REQUEST_NULL) return true;
    int complete = 0;
    check_mpi(MPI_Test(&request, &complete, MPI_STATUS_IGNORE), "MPI_Test");
    return complete != 0;
  }

  static void cancel(MPI_Request& request) {
    if (request == MPI_REQUEST_NULL) return;
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }

  void check_who_left() {
    for (unsigned peer = 0; peer < transport_.size_; ++peer) {
      const std::optional<std::uint64_t>& exchanges = transport_.left_[peer];
      if (!exchanges || *exchanges > number_) continue;
      transport_.record_failure(peer,
                                fmt::format("rank {} has left the group, and rank {} waits for it "
                                            "in {}",
                                            peer, transport_.rank_, what_),
                                true);
      transport_.throw_failure();
    }
  }

  void give_up() {
    unsigned silent = transport_.rank_ == 0 ? 1 : 0;
    for (unsigned peer = 0; peer < transport_.size_; ++peer) {
      const bool here = headers_[peer] == MPI_REQUEST_NULL &&
                        std::ranges::all_of(receives_[peer], [](MPI_Request request) {
                          return request == MPI_REQUEST_NULL;
                        });
      if (!here) {
        silent = peer;
        break;
      }
    }
    transport_.record_failure(
        silent,
        fmt::format("rank {} has not come to {} {} within {} ms, for which rank {} waits", silent,
                    what_, number_, transport_.time_out_.count(), transport_.rank_),
        true);
    transport_.throw_failure();
  }

  MpiTransport& transport_;
  const char* const what_;
  const std::uint64_t number_;
  const Blocks blocks_;
  std::vector<Header> sent_, received_;
  std::vector<MPI_Request> headers_;
  std::vector<std::vector<MPI_Request>> receives_;
  std::vector<MPI_Request> sends_;
};

MpiTransport::MpiTransport(MPI_Comm world, std::chrono::milliseconds time_out)
    : time_out_(time_out), exceptions_(std::uncaught_exceptions()) {
  // Separate communicators: messages of other code cannot be mistaken for ours, and a failure can
  // be received while data is in transit.
  check_mpi(MPI_Comm_dup(world, &data_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_dup(world, &control_), "MPI_Comm_dup");
  for (MPI_Comm of : {data_, control_}) MPI_Comm_set_errhandler(of, MPI_ERRORS_RETURN);
  int rank = 0, size = 1;
  check_mpi(MPI_Comm_rank(data_, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(data_, &size), "MPI_Comm_size");
  rank_ = static_cast<unsigned>(rank);
  size_ = static_cast<unsigned>(size);
  left_.resize(size_);
}

// Communicators are not freed, because that is collective, and the other ranks may be gone.
MpiTransport::~MpiTransport() {
  // During unwinding: this rank makes no further call, and the others must not wait for one.
  if (std::uncaught_exceptions() > exceptions_) fail("an exception ended it");
  notify_all(&started_, 1, MPI_UINT64_T, kLeftTag);
}

std::unique_ptr<PendingBlocks> MpiTransport::start(const char* what, const Blocks& blocks) {
  check();
  return std::make_unique<Exchange>(*this, what, blocks);
}

void MpiTransport::check() {
  listen();
  throw_failure();
}

void MpiTransport::throw_failure() const {
  if (failure_) throw CollectiveError{failure_->rank, failure_->message};
}

void MpiTransport::listen() {
  for (;;) {
    int there = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, control_, &there, &status), "MPI_Iprobe");
    if (there == 0) return;
    if (status.MPI_TAG == kLeftTag) {
      std::uint64_t exchanges = 0;
      MPI_Recv(&exchanges, 1, MPI_UINT64_T, status.MPI_SOURCE, kLeftTag, control_,
               MPI_STATUS_IGNORE);
      left_[static_cast<std::size_t>(status.MPI_SOURCE)] = exchanges;
      continue;
    }
    int bytes = 0;
    MPI_Get_count(&status, MPI_CHAR, &bytes);
    std::string message(static_cast<std::size_t>(bytes), '\0');
    MPI_Recv(message.data(), bytes, MPI_CHAR, status.MPI_SOURCE, kFailedTag, control_,
             MPI_STATUS_IGNORE);
    const std::size_t space = message.find(' ');
    record_failure(static_cast<unsigned>(std::stoul(message.substr(0, space))),
                   message.substr(space + 1), false);
  }
}

void MpiTransport::record_failure(unsigned rank, std::string message, bool tell) {
  if (failure_) return;
  failure_ = Failure{rank, std::move(message)};
  if (!tell) return;
  const std::string sent = fmt::format("{} {}", rank, failure_->message);
  const auto bytes = static_cast<int>(std::min<std::size_t>(sent.size(), 1000));
  notify_all(sent.data(), bytes, MPI_CHAR, kFailedTag);
}

// The messages are so small that MPI takes them at once: a rank that is gone does not block this
// one.
void MpiTransport::notify_all(const void* data, int count, MPI_Datatype type, int tag) noexcept {
  std::vector<MPI_Request> sends(size_, MPI_REQUEST_NULL);
  for (unsigned peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    MPI_Isend(data, count, type, static_cast<int>(peer), tag, control_, &sends[peer]);
  }
  int complete = 0;
  for (const auto until = Clock::now() + kPatienceToTell; Clock::now() < until && complete == 0;) {
    MPI_Testall(static_cast<int>(size_), sends.data(), &complete, MPI_STATUSES_IGNORE);
  }
}

void MpiTransport::fail(const std::string& why) noexcept {
  try {
    record_failure(rank_, fmt::format("rank {} failed: {}", rank_, why), true);
    // No memory for the message: the others notice by their time-out.
  } catch (const std::exception&) {
  }
}

}  // namespace millrace::collective
