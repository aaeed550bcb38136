#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>

#include "millrace/pipeline/collective/rendezvous.hpp"
#include "millrace/pipeline/data/whole_file.hpp"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLookAgain = std::chrono::milliseconds{5};

/** Rank 0 writes NAME.shared.N, other ranks NAME.there.N.RANK, and a rank that fails NAME.failed.
 */
class FileRendezvous final : public Rendezvous {
 public:
  FileRendezvous(std::filesystem::path path, unsigned rank, unsigned size, const Options& options)
      : Rendezvous(rank, size), path_(std::move(path)), time_out_(options.time_out) {
    // Files of an earlier job would be mistaken for files of this one.
    if (rank == 0 && std::filesystem::exists(file("shared.0"))) {
      throw std::runtime_error{fmt::format("{} is there already: a rendezvous takes a new name",
                                           file("shared.0").string())};
    }
  }

  void share(std::span<std::byte> bytes) override {
    const std::lock_guard lock{mutex_};
    const std::string shared = fmt::format("shared.{}", shared_);
    if (rank() == 0) {
      for (unsigned peer = 1; peer < size(); ++peer) await(there(peer), peer);
      write(shared, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    } else {
      write(there(rank()), "");
      await(shared, 0);
      const std::string text = read(shared);
      if (text.size() != bytes.size()) {
        throw CollectiveError{0, fmt::format("rank 0 shares {} bytes, and rank {} expects {}",
                                             text.size(), rank(), bytes.size())};
      }
      std::ranges::copy(std::as_bytes(std::span{text}), bytes.begin());
    }
    ++shared_;
  }

  void report_failure(const Failure& failure) noexcept override {
    try {
      if (this->failure()) return;
      write("failed", fmt::format("{} {}", failure.rank, failure.why));
    } catch (const std::exception&) {  // the other ranks will notice by their time-out
    }
  }

  std::optional<Failure> failure() override {
    if (!std::filesystem::exists(file("failed"))) return {};
    const std::string text = read("failed");
    const std::size_t space = text.find(' ');
    return Failure{static_cast<unsigned>(std::stoul(text)), text.substr(space + 1)};
  }

 private:
  [[nodiscard]] std::filesystem::path file(const std::string& what) const {
    return path_.string() + "." + what;
  }
  [[nodiscard]] std::string there(unsigned peer) const {
    return fmt::format("there.{}.{}", shared_, peer);
  }

  void await(const std::string& what, unsigned peer) {
    const auto until = Clock::now() + time_out_;
    while (!std::filesystem::exists(file(what))) {
      // A rank that has failed does not come, so do not wait for the time-out.
      if (const auto failed = failure()) throw CollectiveError{failed->rank, failed->why};
      if (Clock::now() > until) {
        throw CollectiveError{peer, fmt::format("rank {} has not come to {} within {} ms", peer,
                                                path_.string(), time_out_.count())};
      }
      std::this_thread::sleep_for(kLookAgain);
    }
  }

  void write(const std::string& what, std::string_view text) const {
    // A file appears complete: a rank that polls never reads a part of one.
    WholeFile out{file(what)};
    out.write(std::as_bytes(std::span{text}));
    out.finish();
  }

  [[nodiscard]] std::string read(const std::string& what) const {
    std::ifstream in{file(what), std::ios::binary};
    return {std::istreambuf_iterator<char>{in}, {}};
  }

  const std::filesystem::path path_;
  const std::chrono::milliseconds time_out_;
  std::mutex mutex_;
  std::uint64_t shared_ = 0;
};

}  // namespace

std::unique_ptr<Rendezvous> Rendezvous::over_file(const std::filesystem::path& path, unsigned rank,
                                                  unsigned size, const Options& options) {
  return std::make_unique<FileRendezvous>(path, rank, size, options);
}

}  // namespace millrace
