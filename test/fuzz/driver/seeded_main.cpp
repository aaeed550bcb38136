// Drives LLVMFuzzerTestOneInput without libFuzzer, with samples and with inputs that a seeded
// generator makes from them.
//
//   fuzz_NAME [--runs N | --seconds N] [--seed S] [--only I] [FILE|FOLDER...]
//
// Runs every sample unchanged, then N inputs, or as many as N seconds allow. Input I depends only
// on the seed, I and the samples. A run that dies prints the seed and I, so that it can be
// repeated. The seed is MILLRACE_SEED, or 1.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kLongestInput = 64 * 1024;

std::string current_input;  // the message if the target dies now

void report_death(int signal) {
  const std::string_view text = current_input;
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(const std::string& name, const Bytes& input) {
  current_input = "\nthe target died on " + name + "\n";
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

class Generator {
 public:
  Generator(std::uint64_t seed, std::uint64_t index) {
    std::seed_seq sequence{seed, seed >> 32U, index, index >> 32U};
    random_.seed(sequence);
  }

  Bytes make(const std::vector<Bytes>& samples) {
    Bytes input =
        samples.empty() || below(16) == 0 ? noise(below(256)) : samples[below(samples.size())];
    for (std::size_t left = 1 + below(8); left > 0; --left) mutate(input, samples);
    if (input.size() > kLongestInput) input.resize(kLongestInput);
    return input;
  }

 private:
  std::size_t below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>{0, bound - 1}(random_);
  }

  Bytes noise(std::size_t size) {
    Bytes bytes(size);
    std::ranges::generate(bytes, [this] { return static_cast<std::uint8_t>(below(256)); });
    return bytes;
  }

  /// Draws a range of at most `longest` bytes, as (offset, size).
  std::pair<std::size_t, std::size_t> range_in(const Bytes& bytes, std::size_t longest) {
    const std::size_t offset = below(bytes.size());
    return {offset, 1 + below(std::min(longest, bytes.size() - offset))};
  }

  void insert(Bytes& input, const Bytes& piece) {
    const auto at = input.begin() + static_cast<std::ptrdiff_t>(below(input.size() + 1));
    input.insert(at, piece.begin(), piece.end());
  }

  Bytes piece_of(const Bytes& bytes, std::size_t longest) {
    if (bytes.empty()) return {};
    const auto [offset, size] = range_in(bytes, longest);
    return {bytes.begin() + static_cast<std::ptrdiff_t>(offset),
            bytes.begin() + static_cast<std::ptrdiff_t>(offset + size)};
  }

  /// Returns a little-endian number of 1 to 8 bytes, near a limit.
  Bytes edge_number() {
    constexpr std::uint64_t kEdges[] = {0,      1,          0x7f,       0xff,        0x7fff,
                                        0xffff, 0x7fffffff, 0xffffffff, ~0ULL >> 1U, ~0ULL};
    const std::uint64_t value = kEdges[below(std::size(kEdges))] + below(3) - 1;
    Bytes bytes(std::size_t{1} << below(4));
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::uint8_t>(value >> (8 * i));
    return bytes;
  }

  void overwrite(Bytes& input, const Bytes& piece) {
    const std::size_t offset = below(input.size());
    std::copy_n(piece.begin(), std::min(piece.size(), input.size() - offset),
                input.begin() + static_cast<std::ptrdiff_t>(offset));
  }

  void mutate(Bytes& input, const std::vector<Bytes>& samples) {
    if (input.empty()) return insert(input, noise(1 + below(32)));
    switch (below(8)) {
      case 0:
        input[below(input.size())] ^= static_cast<std::uint8_t>(1U << below(8));
        break;
      case 1:
        input[below(input.size())] = static_cast<std::uint8_t>(below(256));
        break;
      case 2:
        overwrite(input, edge_number());
        break;
      case 3:
        insert(input, noise(1 + below(8)));
        break;
      case 4:
        insert(input, piece_of(input, 256));
        break;
      case 5:
        input.resize(below(input.size()));
        break;
      case 6:
        erase(input);
        break;
      default:
        insert(input,
               samples.empty() ? edge_number() : piece_of(samples[below(samples.size())], 1024));
    }
  }

  void erase(Bytes& input) {
    const auto [offset, size] = range_in(input, 64);
    const auto first = input.begin() + static_cast<std::ptrdiff_t>(offset);
    input.erase(first, first + static_cast<std::ptrdiff_t>(size));
  }

  std::mt19937_64 random_;
};

struct Options {
  std::uint64_t seed = 1;
  std::uint64_t first = 0;
  std::uint64_t runs = 3000;
  std::uint64_t seconds = 0;  ///< 0: makes `runs` inputs
  std::vector<std::filesystem::path> samples;
};

std::uint64_t number_after(const std::vector<std::string>& arguments, std::size_t flag) {
  const std::string text = flag + 1 < arguments.size() ? arguments[flag + 1] : "";
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw std::invalid_argument{arguments[flag] + " takes a number, not '" + text + "'"};
  }
  return value;
}

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  if (const char* const seed = std::getenv("MILLRACE_SEED")) options.seed = std::stoull(seed);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with("--")) {
      options.samples.emplace_back(arguments[i]);
      continue;
    }
    const std::string& flag = arguments[i];
    const std::uint64_t value = number_after(arguments, i++);
    if (flag == "--runs") {
      options.runs = value;
    } else if (flag == "--seconds") {
      options.seconds = value;
      options.runs = UINT64_MAX;
    } else if (flag == "--seed") {
      options.seed = value;
    } else if (flag == "--only") {
      options.first = value;
      options.runs = 1;
    } else {
      throw std::invalid_argument{"unknown option " + flag};
    }
  }
  return options;
}

std::vector<std::filesystem::path> files_in(const std::vector<std::filesystem::path>& places) {
  std::vector<std::filesystem::path> files;
  for (const auto& place : places) {
    if (!std::filesystem::is_directory(place)) {
      files.push_back(place);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator{place})
      files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

Bytes read(const std::filesystem::path& file) {
  std::ifstream stream{file, std::ios::binary};
  if (!stream) throw std::invalid_argument{"cannot read " + file.string()};
  return {std::istreambuf_iterator<char>{stream}, {}};
}

struct Sample {
  std::string name;
  Bytes bytes;
};

std::vector<Sample> read_samples(const std::vector<std::filesystem::path>& places) {
  std::vector<Sample> samples;
  for (const auto& file : files_in(places)) samples.push_back({file.string(), read(file)});
  return samples;
}

void drive(const Options& options, const std::vector<Sample>& samples) {
  std::vector<Bytes> bytes;
  for (const Sample& sample : samples) {
    run(sample.name, sample.bytes);
    bytes.push_back(sample.bytes);
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto is_over = [&] {
    return options.seconds != 0 &&
           std::chrono::steady_clock::now() - begin >= std::chrono::seconds{options.seconds};
  };
  std::uint64_t made = 0;
  for (; made < options.runs && !is_over(); ++made) {
    const std::uint64_t i = options.first + made;
    run("--seed " + std::to_string(options.seed) + " --only " + std::to_string(i),
        Generator{options.seed, i}.make(bytes));
  }
  std::cout << samples.size() << " samples and " << made << " inputs of seed " << options.seed
            << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    std::signal(signal, report_death);
  Options options;
  std::vector<Sample> samples;
  try {
    options = parse({argv + 1, argv + argc});
    samples = read_samples(options.samples);
  } catch (const std::exception& error) {
    std::cerr << "bad arguments: " << error.what() << '\n';
    return 2;
  }
  drive(options, samples);
}
