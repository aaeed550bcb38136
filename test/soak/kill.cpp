#include "soak/kill.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "soak/own_reader.hpp"
#include "test/support/kafka_cluster.hpp"
#include "test/support/redis_server.hpp"

namespace millrace::soak {
namespace {

using Clock = std::chrono::steady_clock;
using Random = std::mt19937_64;
using Words = std::vector<std::string>;
namespace fs = std::filesystem;

constexpr int kIncomplete = 3;    ///< exit code of a program that reports missing rows
constexpr int kMostAttempts = 4;  ///< to end with 0 once the kills are over
constexpr std::chrono::seconds kPatience{120};

/// A process with a log, which can be killed and waited for.
class Process {
 public:
  Process(const std::string& program, Words words, const fs::path& log) {
    words.insert(words.begin(), program);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::ofstream{log, std::ios::app} << fmt::format("$ {}\n", fmt::join(words, " "));
    id_ = ::fork();
    if (id_ < 0) throw std::runtime_error{"fork"};
    if (id_ > 0) return;
    const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(::open("/dev/null", O_RDONLY), 0);
    ::dup2(file, 1);
    ::dup2(file, 2);
    ::execv(program.c_str(), argv.data());
    ::_exit(127);
  }
  ~Process() { kill(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void kill() {
    if (!status_) {
      ::kill(id_, SIGKILL);
      wait_once(0);
    }
  }
  /// Returns the exit code, or 128 + the signal that ended the process, or nothing while it runs.
  [[nodiscard]] std::optional<int> code() {
    if (!status_) wait_once(WNOHANG);
    if (!status_) return {};
    return WIFEXITED(*status_) ? WEXITSTATUS(*status_) : 128 + WTERMSIG(*status_);
  }
  /// @throws std::runtime_error if it does not end within `kPatience`
  [[nodiscard]] int wait() {
    const auto deadline = Clock::now() + kPatience;
    while (!code()) {
      if (Clock::now() > deadline) throw std::runtime_error{"a process does not end"};
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
    return *code();
  }

 private:
  void wait_once(int flags) {
    int status = 0;
    if (::waitpid(id_, &status, flags) == id_) status_ = status;
  }
  pid_t id_ = 0;
  std::optional<int> status_;
};

/// A sink, its server if it has one, and its reader.
struct Target {
  std::string kind, spec;
  fs::path folder;
  std::optional<test::RedisServer> server;
  std::optional<test::KafkaCluster> cluster;

  Target(std::string of_kind, const fs::path& in, Random& random) : kind(std::move(of_kind)) {
    folder = in / ("sink-" + kind);
    if (kind == "kafka") {
      cluster.emplace();
      cluster->order("topic soak 48");  // 48 partitions of 5 MB: more than is written
      spec = cluster->spec("soak");
      return;
    }
    if (kind != "redis") {
      spec = kind + ":" + folder.string();
      return;
    }
    using Keeps = test::RedisServer::Keeps;
    server.emplace(random() % 2 == 0 ? Keeps::all : Keeps::nothing);
    spec = server->spec("soak");
  }
  [[nodiscard]] bool has_server() const { return server || cluster; }
  /// Kills a Redis server. Brokers keep all data in memory, so they only refuse connections.
  void take_down() {
    if (server) server->kill();
    if (cluster) cluster->order("down");
  }
  void bring_back() {
    if (server) server->start();
    if (cluster) cluster->order("up");
  }
  [[nodiscard]] OwnCopy read() const {
    if (kind == "file") return read_folder(folder);
    if (kind == "rocksdb") return read_rocksdb(folder);
    if (kind == "kafka") {
      // Brokers may still receive data that a killed writer has sent.
      std::this_thread::sleep_for(std::chrono::milliseconds{300});
      return read_kafka(cluster->brokers(), "soak");
    }
    return read_redis([&](const Words& words) { return server->command(words); }, "soak");
  }
};

/// Returns whether an applier can follow this kind of sink.
bool is_source(const std::string& kind) { return kind == "file" || kind == "kafka"; }

class Round {
 public:
  Round(const KillOptions& options, const std::string& kind, std::uint64_t seed)
      : options_(options),
        random_(seed),
        folder_(fs::temp_directory_path() / fmt::format("millrace-kill-{}-{}", ::getpid(), seed)),
        log_(folder_ / "log"),
        checkpoint_(folder_ / "model.ckpt"),
        made_(fs::create_directories(folder_)),
        target_(kind, folder_, random_),
        copies_(is_source(kind) && random_() % 2 == 0) {}

  /// @throws std::runtime_error that describes the error
  std::string run() {
    const unsigned kills = 1 + static_cast<unsigned>(random_() % 4);
    for (unsigned i = 0; i < kills; ++i) kill_one();
    finish();
    std::string done = fmt::format("{} kills, {} checks of verify", kills, checks_);
    if (copies_) {
      finish_copy();
      done += ", a copy applied";
    }
    fs::remove_all(folder_);
    return done;
  }
  [[nodiscard]] const fs::path& folder() const { return folder_; }

 private:
  [[nodiscard]] Words training() const {
    Words words{"train",
                "--data",
                "synthetic",
                "--examples",
                "16384",
                "--epochs",
                "3",
                "--batch-size",
                "64",
                "--seed",
                "7",
                "--stream",
                target_.spec,
                "--save",
                checkpoint_.string(),
                "--save-every",
                "24",
                "--stream-deadline",
                "20"};
    if (fs::exists(checkpoint_)) words.insert(words.end(), {"--load", checkpoint_.string()});
    return words;
  }
  [[nodiscard]] Words applying(double idle) const {
    return {"stream", "apply",     "--from",       target_.spec,
            "--to",   copy_spec(), "--until-idle", fmt::format("{}", idle)};
  }
  [[nodiscard]] fs::path copy_folder() const { return folder_ / "copy"; }
  [[nodiscard]] std::string copy_spec() const { return "rocksdb:" + copy_folder().string(); }

  void pause(int most_ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds{
        1 + static_cast<int>(random_() % static_cast<unsigned>(most_ms))});
  }

  /// Kills a run and its applier at a random instant, sometimes after an outage of the sink's
  /// server. Then checks the remaining data.
  void kill_one() {
    Process trainer{options_.program, training(), log_};
    std::optional<Process> applier;
    pause(700);
    if (copies_) applier.emplace(options_.program, applying(5), log_);
    pause(700);
    // After the trainer's end no process sends lost data again, so the server must stay up.
    if (target_.has_server() && random_() % 2 == 0 && !trainer.code()) {
      target_.take_down();
      pause(300);
      target_.bring_back();
      pause(300);
    }
    if (applier) applier->kill();
    const std::optional<int> ended = trainer.code();
    trainer.kill();
    if (ended && *ended != 0 && *ended != kIncomplete) {
      throw std::runtime_error{fmt::format("a trainer that nobody killed ended with {}", *ended)};
    }
    check(target_.spec, target_.read(), ended == 0);
  }

  void finish() {
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      const int code = Process{options_.program, training(), log_}.wait();
      if (code == 0) return check(target_.spec, target_.read(), true);
      if (code != kIncomplete) {
        throw std::runtime_error{fmt::format("the last trainer ended with {}", code)};
      }
    }
    throw std::runtime_error{"no trainer ended with 0, though nobody was killed any more"};
  }

  void finish_copy() {
    const int code = Process{options_.program, applying(1), log_}.wait();
    if (code != 0) throw std::runtime_error{fmt::format("the last applier ended with {}", code)};
    check(copy_spec(), read_rocksdb(copy_folder()), true);
  }

  /// Checks that verify reports what this program's reader finds. A copy that is `whole` must equal
  /// the checkpoint.
  void check(const std::string& spec, const OwnCopy& copy, bool whole) {
    if (copy.empty() || !fs::exists(checkpoint_)) {
      if (whole) throw std::runtime_error{"a run ended with 0, and there is nothing"};
      return;
    }
    const OwnComparison own = compare(copy, checkpoint_);
    const fs::path said = folder_ / "verify.json";
    fs::remove(said);
    static_cast<void>(
        Process{options_.program,
                {"stream", "verify", spec, checkpoint_.string(), "--json", said.string()},
                log_}
            .wait());
    std::ifstream in{said};
    if (!in) throw std::runtime_error{"verify wrote no result"};
    const auto verdict = nlohmann::json::parse(in);
    const auto count = [&](const char* key) { return verdict.at(key).get<std::uint64_t>(); };
    ++checks_;
    const bool agree = count("rows") == own.rows && count("equal") == own.equal &&
                       count("different") + count("newer") == own.unequal &&
                       count("absent") == own.absent;
    if (!agree || (whole && own.equal != own.rows)) {
      throw std::runtime_error{fmt::format(
          "{}: of {} rows {} are equal, {} are not, {} are absent; verify counts {} equal, {} "
          "different, {} newer, {} absent{}",
          spec, own.rows, own.equal, own.unequal, own.absent, count("equal"), count("different"),
          count("newer"), count("absent"), whole ? "; a run ended with 0" : "")};
    }
  }

  const KillOptions& options_;
  Random random_;
  const fs::path folder_, log_, checkpoint_;
  const bool made_;
  Target target_;
  const bool copies_;
  unsigned checks_ = 0;
};

std::vector<std::string> kinds(const std::string& wanted) {
  std::vector<std::string> all{"file"};
#ifdef MILLRACE_SOAK_ROCKSDB
  all.emplace_back("rocksdb");
#endif
#ifdef MILLRACE_SOAK_KAFKA
  all.emplace_back("kafka");
#endif
#ifdef MILLRACE_SOAK_REDIS
  if (test::no_redis_server().empty()) all.emplace_back("redis");
#endif
  if (wanted == "all") return all;
  if (std::find(all.begin(), all.end(), wanted) == all.end()) {
    throw std::invalid_argument{
        fmt::format("there is no sink '{}' here; there are {}", wanted, fmt::join(all, ", "))};
  }
  return {wanted};
}

}  // namespace

unsigned kill_soak(const KillOptions& options) {
  const std::vector<std::string> sinks = kinds(options.sink);
  const auto begin = Clock::now();
  const std::chrono::duration<double> time{options.seconds};
  unsigned broken = 0;
  for (std::size_t i = 0; i < sinks.size() || Clock::now() - begin < time; ++i) {
    const std::string& kind = sinks[i % sinks.size()];
    const std::uint64_t seed = options.seed + i;
    Round round{options, kind, seed};
    try {
      fmt::print("seed {} {}: {}\n", seed, kind, round.run());
    } catch (const std::exception& error) {
      ++broken;
      fmt::print("seed {} {}: BROKEN: {}; see {}\n", seed, kind, error.what(),
                 round.folder().string());
    }
    std::fflush(stdout);
  }
  fmt::print("{} broken\n", broken);
  return broken;
}

}  // namespace millrace::soak
