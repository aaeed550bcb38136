// Passes hostile files to the program's own commands. The kind of a file (a workload, a trace, a
// checkpoint, ...) and its errors follow from the input's bytes. If the first line names a kind,
// for example "workload", the other lines are the file. Each run is a process with limits on
// memory and time, in an empty folder. The program must read each file, or refuse it with its exit
// code and at most three lines. It must leave no other file behind and stay within the limits.
//
// The program is the one that was built, or MILLRACE_PROGRAM. MILLRACE_FUZZ_SHOW=1 prints every
// run.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "test/fuzz/commands/child.hpp"
#include "test/fuzz/commands/documents.hpp"
#include "test/fuzz/commands/draws.hpp"
#include "test/fuzz/support/records.hpp"

namespace {

namespace fs = std::filesystem;
using namespace millrace::fuzz;
using Json = nlohmann::json;

constexpr unsigned kMostErrorLines = 3;

std::string program() {
  const char* const given = std::getenv("MILLRACE_PROGRAM");
  return given != nullptr ? given : MILLRACE_PROGRAM;
}

std::string content_of(const fs::path& file) {
  std::ifstream stream{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{stream}, {}};
}

void write(const fs::path& file, const std::string& content) {
  std::ofstream stream{file, std::ios::binary};
  stream << content;
  require(stream.flush().good(), "there is room for the files of this test");
}

/// A folder that is emptied between runs and removed at the end.
class Folder {
 public:
  Folder()
      : path_{fs::temp_directory_path() /
              ("millrace-fuzz-commands-" + std::to_string(::getpid()))} {
    empty();
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  void empty() const {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }
  /// Returns the relative names of everything in it.
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator{path_}) {
      names.insert(fs::relative(entry.path(), path_).string());
    }
    return names;
  }

 private:
  fs::path path_;
};

const Json kModel = {{"schema", "millrace.model/1"},
                     {"description", "small"},
                     {"width", 4},
                     {"tables", {{"table_0", {{"rows", 10}, {"width", 4}, {"pooling", "sum"}}}}},
                     {"dense_arch", {4}},
                     {"over_arch", {4}},
                     {"interaction", "dot"},
                     {"table_optimizer", {{"kind", "sgd"}, {"learning_rate", 0.1}}},
                     {"dense_optimizer", {{"kind", "adam"}, {"learning_rate", 0.1}}}};

Json small_model() {
  Json model = kModel;
  model.erase("tables");
  return model;
}

const Json kWorkload = {{"schema", "millrace.workload/1"},
                        {"description", "small"},
                        {"shape", "sparse-dist"},
                        {"num_batches", 2},
                        {"batch_size", 16},
                        {"world_size", 1},
                        {"num_float_features", 4},
                        {"num_unweighted_features", 3},
                        {"num_weighted_features", 2},
                        {"feature_pooling_avg", 2},
                        {"feature_pooling_std", 1},
                        {"base_row_size", 10},
                        {"embedding_feature_dim", 4},
                        {"additional_tables", {{{"num_embeddings", 10}, {"embedding_dim", 4}}}},
                        {"activations", "1MiB"},
                        {"layers", 2},
                        {"model", {{"dense_arch", {4}}, {"over_arch", {4}}}}};

const Json kSharding = {{"s0", {{"sharding", "table-wise"}, {"rank", 1}}},
                        {"s1", {{"sharding", "row-wise"}}},
                        {"w0", {{"sharding", "data-parallel"}}}};

const Json kSnapshot = Json::parse(R"({
  "segments": [
    {"device": 0, "address": 2097152, "total_size": 2097152, "stream": 7, "segment_type": "small",
     "segment_pool_id": [0, 1], "is_expandable": false, "frames": [{"line": 3, "name": "f"}],
     "blocks": [
       {"address": 2097152, "size": 1024, "requested_size": 1000, "state": "active_allocated"},
       {"address": 2098176, "size": 512, "requested_size": 10, "state": "active_pending_free"},
       {"address": 2098688, "size": 2095616, "requested_size": 0, "state": "inactive"}]}],
  "device_traces": [[
    {"action": "segment_alloc", "addr": 2097152, "size": 2097152, "stream": 7, "time_us": 4},
    {"action": "alloc", "addr": 2097152, "size": 1000, "stream": 7, "time_us": 5,
     "frames": [{"line": 1, "filename": "a.py", "name": "g"}]},
    {"action": "alloc", "addr": 2098176, "size": 10, "stream": 7, "time_us": 6.5},
    {"action": "free_requested", "addr": 2098176, "size": 10, "stream": 7, "time_us": 7},
    {"action": "oom", "device_free": 4096, "size": 9000, "stream": 7, "time_us": 8},
    {"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": 9}]],
  "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1,
    "garbage_collection_threshold": 0.0, "expandable_segments": false,
    "roundup_power2_divisions": {"1": 0, "2": 4}},
  "external_annotations": []})");

const std::string kLifetimes = "id,lower,upper,size\n0,0,5,10\n1,2,8,30\n2,5,9,40\n3,6,7,1\n";
const std::string kRmmLog =
    "Thread,Time,Action,Pointer,Size,Stream\n"
    "1,15:47:02.841961,allocate,0x1000,512,0x0\n"
    "1,15:47:02.841962,allocate,0x2000,512,0x7f00\n"
    "1,15:47:02.841963,allocate failure,(nil),5120000,2\n"
    "1,15:47:02.841964,free,0x1000,512,0x0\n";

std::string adult_lines() {
  std::string text;
  for (int i = 0; i < 20; ++i) {
    text += std::to_string(20 + i) +
            ", Private, 215646, HS-grad, 9, Divorced, Sales, Husband, White, Male, 0, 0, 40, "
            "United-States, " +
            (i % 3 == 0 ? ">50K\n" : "<=50K\n");
  }
  return text;
}

std::string criteo_lines() {
  std::string text;
  for (int i = 0; i < 20; ++i) {
    text += i % 2 == 0 ? "1" : "0";
    for (int j = 0; j < 13; ++j) text += "\t" + std::to_string(i + j);
    for (int j = 0; j < 26; ++j) text += "\t" + std::to_string(68000000 + i % 5 + j);
    text += "\n";
  }
  return text;
}

/// A training run that ended well: its checkpoint, and the files of its file sink.
class Trained {
 public:
  Trained() {
    folder_.empty();
    write(folder_.path() / "model.json", small_model().dump());
    const ChildRun run =
        run_child(program(),
                  {"train", "--data", "synthetic", "--examples", "64", "--batch-size", "16",
                   "--steps", "2", "--model", "model.json", "--save", "checkpoint", "--stream",
                   "file:log", "--stream-content", "weights-and-state"},
                  folder_.path(), {});
    if (run.exit_code != 0) std::cerr << run.errors;
    require(run.exit_code == 0, "a small run of training ends well");
    checkpoint_ = content_of(folder_.path() / "checkpoint");
    for (const auto& entry : fs::directory_iterator{folder_.path() / "log"}) {
      log_.emplace_back(entry.path().filename(), content_of(entry.path()));
    }
    folder_.empty();
  }

  [[nodiscard]] const std::string& checkpoint() const { return checkpoint_; }
  void write_log(const fs::path& folder) const {
    fs::create_directories(folder);
    for (const auto& [name, content] : log_) write(folder / name, content);
  }
  [[nodiscard]] std::string schema() const { return content_like("schema"); }
  [[nodiscard]] std::string segment() const { return content_like(".segment"); }
  [[nodiscard]] fs::path segment_name() const {
    return std::ranges::find_if(
               log_, [](const auto& file) { return file.first.extension() == ".segment"; })
        ->first;
  }

 private:
  [[nodiscard]] std::string content_like(const std::string& part) const {
    return std::ranges::find_if(log_,
                                [&](const auto& file) {
                                  return file.first.string().find(part) != std::string::npos;
                                })
        ->second;
  }

  Folder folder_;
  std::string checkpoint_;
  std::vector<std::pair<fs::path, std::string>> log_;
};

/// Sets the hash of the preamble and the header, so that a reader goes on to read the header.
std::string with_checksum(std::string checkpoint) {
  constexpr std::size_t preamble = 40, at_hash = 32, at_header_bytes = 16;
  if (checkpoint.size() < preamble) return checkpoint;
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, checkpoint.data() + at_header_bytes, sizeof header_bytes);
  if (header_bytes > checkpoint.size() - preamble) return checkpoint;
  std::string hashed = checkpoint.substr(0, at_hash) + checkpoint.substr(preamble, header_bytes);
  const std::uint64_t hash = XXH3_64bits(hashed.data(), hashed.size());
  std::memcpy(checkpoint.data() + at_hash, &hash, sizeof hash);
  return checkpoint;
}

/// Returns a damaged checkpoint, or one with another header of the right length and checksum.
std::string hostile_checkpoint(const std::string& valid, Draws& draws) {
  constexpr std::size_t preamble = 40, at_header_bytes = 16;
  if (draws.one_in(3)) return damaged(valid, draws);
  if (draws.one_in(3)) return with_checksum(damaged(valid, draws));
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, valid.data() + at_header_bytes, sizeof header_bytes);
  const std::string header = hostile_json(Json::parse(valid.substr(preamble, header_bytes)), draws);
  std::string bytes = valid.substr(0, preamble) + header + valid.substr(preamble + header_bytes);
  header_bytes = header.size();
  std::memcpy(bytes.data() + at_header_bytes, &header_bytes, sizeof header_bytes);
  return with_checksum(std::move(bytes));
}

std::string hostile_segment(const std::string& valid, Draws& draws) {
  std::string bytes = damaged(valid, draws);
  for (std::size_t left = draws.below(4); left > 0 && !bytes.empty(); --left) {
    bytes[draws.below(std::min<std::size_t>(bytes.size(), 4096))] =
        static_cast<char>(draws.below(256));
  }
  if (draws.one_in(3)) return bytes;
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
  std::vector<std::byte> mended(begin, begin + bytes.size());
  mend(mended);
  return {reinterpret_cast<const char*>(mended.data()), mended.size()};
}

/// One kind of file: how to make a hostile one, and the commands that read it.
struct Kind {
  std::string name;
  std::function<std::string(Draws&)> make;
  std::vector<std::vector<std::string>> commands;  ///< runs one of these; FILE is the file
  std::function<void(const fs::path& folder)> prepare = nullptr;
  std::string file = "file";        ///< name of the file
  std::set<std::string> made = {};  ///< prefixes of names that a run may leave
};

const std::vector<std::string> kTrain = {"train", "--batch-size", "8", "--steps", "1"};

std::vector<std::string> train_with(const std::vector<std::string>& more) {
  std::vector<std::string> words = kTrain;
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void write_model(const fs::path& folder) { write(folder / "model.json", small_model().dump()); }

std::string hostile_trace(Draws& draws) {
  std::string bytes;
  switch (draws.below(4)) {
    case 0:
      bytes = hostile_json(kSnapshot, draws);
      break;
    case 1:
      bytes = hostile_lines(kLifetimes, ',', draws);
      break;
    case 2:
      bytes = hostile_lines(kRmmLog, ',', draws);
      break;
    default:
      bytes = hostile_pickle(kSnapshot, draws);
  }
  return draws.one_in(5) ? hostile_gzip(bytes, draws) : bytes;
}

std::string perhaps_gzip(std::string text, Draws& draws) {
  return draws.one_in(8) ? hostile_gzip(text, draws) : text;
}

std::vector<Kind> kinds_of_data() {
  return {
      {"workload",
       [](Draws& draws) { return hostile_json(kWorkload, draws); },
       {{"footprint", "--workload", "FILE", "--allocator", "millrace", "--copy", "in-place",
         "--steps", "5", "--seeds", "1"},
        {"pipelines", "--workload", "FILE", "--pipeline", "base", "--copy", "in-place",
         "--allocator", "millrace", "--steps", "1", "--seeds", "1", "--ranks", "1"}}},
      {"model",
       [](Draws& draws) { return hostile_json(draws.one_in(2) ? kModel : small_model(), draws); },
       {train_with({"--data", "synthetic", "--examples", "32", "--model", "FILE"})}},
      {"sharding",
       [](Draws& draws) { return hostile_json(kSharding, draws); },
       {train_with({"--data", "synthetic", "--examples", "32", "--model", "model.json", "--ranks",
                    "2", "--sharding", "FILE"})},
       write_model,
       "file.json"},
      {"trace",
       hostile_trace,
       {{"replay", "FILE"},
        {"replay", "FILE", "--format", "json"},
        {"replay", "FILE", "--allocator", "millrace", "--snapshot", "written.pickle"},
        {"explain", "FILE", "--wide"},
        {"explain", "FILE", "--format", "json", "--html", "page.html"},
        {"explain", "FILE", "--against", "FILE"}},
       nullptr,
       "file",
       {"written.pickle", "page.html"}},
      {"adult",
       [](Draws& draws) { return perhaps_gzip(hostile_lines(adult_lines(), ',', draws), draws); },
       {train_with({"--data", "FILE", "--data-format", "adult", "--model", "model.json"}),
        train_with({"--data", "FILE"})},
       write_model},
      {"criteo",
       [](Draws& draws) { return perhaps_gzip(hostile_lines(criteo_lines(), '\t', draws), draws); },
       {train_with({"--data", "FILE", "--data-format", "criteo", "--model", "model.json"})},
       write_model},
  };
}

std::vector<Kind> kinds_of_a_run(const Trained& trained) {
  const auto write_log = [&trained](const fs::path& folder) {
    write(folder / "checkpoint", trained.checkpoint());
    trained.write_log(folder / "log");
  };
  const std::vector<std::vector<std::string>> followed = {
      {"stream", "verify", "file:log", "checkpoint"},
      {"stream", "apply", "--from", "file:log", "--to", "file:copy", "--until-idle", "0.05"}};
  return {
      {"checkpoint",
       [&trained](Draws& draws) { return hostile_checkpoint(trained.checkpoint(), draws); },
       {{"train", "--data", "synthetic", "--examples", "64", "--load", "FILE", "--eval"},
        {"stream", "verify", "file:log", "FILE"}},
       [&trained](const fs::path& folder) { trained.write_log(folder / "log"); },
       "file",
       {"log/"}},
      {"segment",
       [&trained](Draws& draws) { return hostile_segment(trained.segment(), draws); },
       followed,
       write_log,
       "log/" + trained.segment_name().string(),
       {"log/", "copy"}},
      {"schema",
       [&trained](Draws& draws) { return hostile_json(Json::parse(trained.schema()), draws); },
       followed,
       write_log,
       "log/schema.json",
       {"log/", "copy"}},
  };
}

const std::vector<Kind>& kinds() {
  static const Trained trained;
  static const std::vector<Kind> all = [] {
    std::vector<Kind> kinds = kinds_of_data();
    for (Kind& kind : kinds_of_a_run(trained)) kinds.push_back(std::move(kind));
    return kinds;
  }();
  return all;
}

class Check {
 public:
  Check(const Folder& folder, const Kind& kind, const std::string& file,
        const std::vector<std::string>& command)
      : folder_{folder}, kind_{kind}, file_{file}, command_{command} {}

  void run() const {
    folder_.empty();
    if (kind_.prepare) kind_.prepare(folder_.path());
    write(folder_.path() / kind_.file, file_);
    const std::set<std::string> before = folder_.names();
    std::vector<std::string> words = command_;
    for (std::string& word : words) {
      if (word == "FILE") word = kind_.file;
    }
    const ChildRun run = run_child(program(), words, folder_.path(), {});
    if (std::getenv("MILLRACE_FUZZ_SHOW") != nullptr) show(run);
    judge(run);
    for (const std::string& name : folder_.names()) {
      const bool may_be =
          before.contains(name) || std::ranges::any_of(kind_.made, [&](const std::string& made) {
            return name.starts_with(made);
          });
      promise(may_be, run, "nothing is left behind: " + name);
    }
  }

 private:
  void show(const ChildRun& run) const {
    std::cerr << kind_.name << ", " << file_.size() << " bytes:";
    for (const std::string& word : command_) std::cerr << ' ' << word;
    std::cerr << "\n  exit code " << run.exit_code << ", signal " << run.signal << '\n'
              << run.errors.substr(0, 2000);
  }

  void promise(bool holds, const ChildRun& run, const std::string& what) const {
    if (holds) return;
    show(run);
    const fs::path kept = fs::temp_directory_path() / ("millrace-fuzz-" + kind_.name);
    write(kept, kind_.name + "\n" + file_);
    std::cerr << "the file is kept as " << kept.string() << '\n';
    require(false, what.c_str());
  }

  void judge(const ChildRun& run) const {
    promise(run.signal == 0, run, "no signal ends the program, and no limit is passed");
    const bool is_stream = command_[0] == "stream";
    // Code 1: a copy differs from a checkpoint. Code 3: a copy is incomplete.
    const bool of_copy = is_stream && run.exit_code == (command_[1] == "verify" ? 1 : 3);
    promise(run.exit_code == 0 || run.exit_code == 2 || of_copy, run,
            "the exit code is one that the program has");
    if (run.exit_code != 2) return;
    promise(!run.errors.empty(), run, "a refusal says something");
    promise(std::ranges::count(run.errors, '\n') <= kMostErrorLines, run,
            "a refusal has at most three lines");
    for (const char* const raw : {"bad_alloc", "std::", "json.exception", "basic_string",
                                  "vector::", "_M_", "stoi", "stoul"}) {
      promise(run.errors.find(raw) == std::string::npos, run,
              "no refusal is a library's: " + std::string{raw});
    }
  }

  const Folder& folder_;
  const Kind& kind_;
  const std::string& file_;
  const std::vector<std::string>& command_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  const std::string input{data, data + size};
  Draws draws{input};
  const std::string first = input.substr(0, input.find('\n'));
  for (const Kind& kind : kinds()) {
    if (kind.name != first) continue;
    const std::string file = input.substr(std::min(input.size(), first.size() + 1));
    for (const auto& command : kind.commands) Check{folder, kind, file, command}.run();
    return 0;
  }
  const Kind& kind = draws.of(kinds());
  const std::string file = kind.make(draws);
  Check{folder, kind, file, draws.of(kind.commands)}.run();
  return 0;
}
