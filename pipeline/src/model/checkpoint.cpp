#include "millrace/pipeline/model/checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "model/checkpoint_file.hpp"
#include "model/checkpoint_header.hpp"
#include "model/hash.hpp"
#include "model/state_transfer.hpp"

namespace millrace {

using namespace model;

namespace {

using OrderedJson = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie");

constexpr std::uint64_t kMagic = 0x454341524C4C494DULL;  // "MILLRACE"
constexpr std::uint64_t kVersion = 1;
constexpr std::uint64_t kPreamble = 40;  // four numbers, and the hash of these and the header

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span<const char>{text});
}

std::uint64_t header_hash(std::uint64_t header_bytes, std::uint64_t payload_bytes,
                          const std::string& header) {
  Hash hash;
  for (const std::uint64_t number : {kMagic, kVersion, header_bytes, payload_bytes}) {
    hash.add(number);
  }
  hash.add(bytes_of(header));
  return hash.of_64_bits();
}

OrderedJson to_document(const CheckpointHeader& header, const WholeState& state) {
  OrderedJson tensors = OrderedJson::array(), counters = OrderedJson::array();
  for (const WholeState::Tensor& tensor : state.tensors()) {
    tensors.push_back({{"name", tensor.name}, {"size", tensor.size}});
  }
  for (const WholeState::Counter& counter : state.counters()) {
    counters.push_back({{"name", counter.name}, {"value", counter.value}});
  }
  return {{"model", header.model},
          {"data", header.data},
          {"seed", header.seed},
          {"steps", header.steps},
          {"batch_size", header.batch_size},
          {"position", {{"epoch", header.position.epoch}, {"batch", header.position.batch}}},
          {"stream", header.stream},
          {"tensors", std::move(tensors)},
          {"counters", std::move(counters)}};
}

std::uint64_t payload_of(const WholeState& state) {
  std::uint64_t bytes = 0;
  for (const WholeState::Tensor& tensor : state.tensors()) {
    bytes += tensor.size * sizeof(float) + sizeof(std::uint64_t);
  }
  return bytes;
}

/**
 * Returns "table.user." for "table.user.weights"; "" for a name that is not that of a table's
 * weights.
 */
std::string_view table_of(std::string_view name) {
  constexpr std::string_view last = "weights";
  const bool table = (name.starts_with("table.") || name.starts_with("weighted_table.")) &&
                     name.ends_with(".weights");
  return table ? name.substr(0, name.size() - last.size()) : std::string_view{};
}

/** Returns whether `name` is optimizer state of one of the tables in `state`. */
bool optimizer_keeps(const ModelState& state, std::string_view name) {
  return std::ranges::any_of(state.tensors, [&](const StateTensor& tensor) {
    const std::string_view table = table_of(tensor.name);
    return !table.empty() && name != tensor.name && name.starts_with(table);
  });
}

void require_finite(std::span<const std::byte> bytes, const std::filesystem::path& file,
                    const std::string& tensor) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    float number = 0;
    std::memcpy(&number, bytes.data() + at, sizeof number);
    if (std::isfinite(number)) continue;
    throw CheckpointError{
        fmt::format("'{}' has a number that is infinite or not a number: the training diverged",
                    tensor),
        fmt::format("{}, which is not written", file.string()),
        "a lower learning rate, or the data without what made it diverge"};
  }
}

}  // namespace

void save_checkpoint(const std::filesystem::path& file, const CheckpointHeader& header,
                     WholeState& state) {
  const std::string text = to_document(header, state).dump();
  const std::uint64_t payload = payload_of(state);
  if (text.size() > kMostHeader) {
    throw CheckpointError{
        fmt::format("the checkpoint cannot be written: its header would have {} bytes",
                    text.size()),
        file.string(), fmt::format("at most {} bytes: fewer or shorter names", kMostHeader)};
  }
  UnfinishedFile out{file};
  for (const std::uint64_t number : {kMagic, kVersion, std::uint64_t{text.size()}, payload}) {
    out.write(number);
  }
  out.write(header_hash(text.size(), payload, text));
  out.write(bytes_of(text));
  const std::vector<WholeState::Tensor> tensors = state.tensors();
  for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    Hash hash;
    state.read(tensor, [&](std::span<const std::byte> bytes) {
      // Checked before the file gets its name: a diverged training must not replace a good
      // checkpoint.
      require_finite(bytes, file, tensors[tensor].name);
      hash.add(bytes);
      out.write(bytes);
    });
    out.write(hash.of_64_bits());
  }
  out.finish();
}

void save_checkpoint(const std::filesystem::path& file, const CheckpointHeader& header,
                     const ModelState& state, ModelContext& context) {
  LocalState local{state, context};
  save_checkpoint(file, header, local);
}

void check_checkpoint_place(const std::filesystem::path& file) { UnfinishedFile::check(file); }

struct Checkpoint::Contents {
  std::filesystem::path file;
  CheckpointHeader header;
  std::vector<Named> tensors, counters;
  std::uint64_t payload_begin = 0;
  /** The file that was verified. It stays open: another file may get its name meanwhile. */
  std::unique_ptr<InputFile> in;

  void read();
  void check_payload();
  void check_same(const ModelState& state) const;
  [[nodiscard]] static const Named* find(const std::vector<Named>& all, std::string_view name) {
    const auto found = std::ranges::find(all, name, &Named::name);
    return found == all.end() ? nullptr : &*found;
  }
  [[noreturn]] void refuse_model(const std::string& how) const;
  [[noreturn]] void refuse(const std::string& what, const std::string& where,
                           const std::string& right) const {
    throw CheckpointError{what, where.empty() ? file.string() : file.string() + ", " + where,
                          right};
  }
  void check_size(std::uint64_t found, std::uint64_t expected) const {
    if (found == expected) return;
    refuse(fmt::format("the checkpoint is {}: {} bytes, and {} were written",
                       found < expected ? "cut short" : "too long", found, expected),
           "", "the file as --save has written it");
  }
};

void Checkpoint::Contents::read() {
  in = std::make_unique<InputFile>(file);
  if (in->size() < kPreamble || in->read_number() != kMagic) {
    refuse("this is not a checkpoint", "", "a file that --save has written");
  }
  const std::uint64_t version = in->read_number();
  if (version != kVersion) {
    refuse(fmt::format("the checkpoint is of version {}", version), "",
           fmt::format("version {}, which this program reads", kVersion));
  }
  const std::uint64_t header_bytes = in->read_number(), payload = in->read_number();
  const std::uint64_t hash = in->read_number();
  const std::uint64_t left = in->size() - kPreamble;
  if (header_bytes > kMostHeader || payload > ~std::uint64_t{0} - kPreamble - header_bytes) {
    refuse("the checkpoint is damaged: it states impossible sizes", "its first 40 bytes",
           "the file as --save has written it");
  }
  check_size(left + kPreamble, kPreamble + header_bytes + payload);
  std::string text(header_bytes, '\0');
  in->read(std::as_writable_bytes(std::span<char>{text}));
  if (header_hash(header_bytes, payload, text) != hash) {
    refuse("the checkpoint is damaged: its header's checksum does not match",
           fmt::format("bytes 0 to {}", kPreamble + header_bytes),
           "the file as --save has written it");
  }
  try {
    ParsedHeader parsed = parse_checkpoint_header(text, payload);
    header = std::move(parsed.header);
    tensors = std::move(parsed.tensors);
    counters = std::move(parsed.counters);
  } catch (const std::invalid_argument& problem) {
    refuse(fmt::format("the checkpoint is damaged: {}", problem.what()),
           fmt::format("bytes {} to {}", kPreamble, kPreamble + header_bytes),
           "the file as --save has written it");
  }
  payload_begin = kPreamble + header_bytes;
  check_payload();
}

void Checkpoint::Contents::check_payload() {
  std::vector<std::byte> piece;
  std::uint64_t at = payload_begin;
  // The whole file is checked before the model is changed.
  for (Named& tensor : tensors) {
    Hash hash;
    tensor.begin = at;
    const std::uint64_t bytes = tensor.number * sizeof(float);
    for (std::uint64_t done = 0; done < bytes; done += piece.size()) {
      piece.resize(std::min<std::uint64_t>(kPiece, bytes - done));
      in->read(piece);
      hash.add(piece);
    }
    if (in->read_number() != hash.of_64_bits()) {
      refuse(fmt::format("the checkpoint is damaged: the checksum of '{}' does not match",
                         tensor.name),
             fmt::format("bytes {} to {}", at, at + bytes + sizeof(std::uint64_t)),
             "the file as --save has written it");
    }
    at += bytes + sizeof(std::uint64_t);
  }
}

void Checkpoint::Contents::refuse_model(const std::string& how) const {
  refuse("the checkpoint is of another model: " + how, "", "a model like the one that was saved");
}

void Checkpoint::Contents::check_same(const ModelState& state) const {
  for (const StateTensor& tensor : state.tensors) {
    const Named* const saved = find(tensors, tensor.name);
    if (saved == nullptr && optimizer_keeps(state, tensor.name)) continue;
    if (saved == nullptr) refuse_model(fmt::format("it has no tensor '{}'", tensor.name));
    if (saved->number == tensor.whole_size()) continue;
    refuse_model(fmt::format("'{}' has {} numbers there, {} here", tensor.name, saved->number,
                             tensor.whole_size()));
  }
  for (const Named& saved : tensors) {
    const bool here = std::ranges::any_of(
        state.tensors, [&](const StateTensor& tensor) { return tensor.name == saved.name; });
    const bool of_model = !saved.name.starts_with(kOfPipeline);
    if (here || !of_model || optimizer_keeps(state, saved.name)) continue;
    refuse_model(fmt::format("it has a tensor '{}', which this model does not have", saved.name));
  }
  for (const StateCounter& counter : state.counters) {
    if (find(counters, counter.name) != nullptr) continue;
    refuse_model(fmt::format("it has no counter '{}'", counter.name));
  }
}

Checkpoint::Checkpoint(std::filesystem::path file) : contents_(std::make_unique<Contents>()) {
  contents_->file = std::move(file);
  contents_->read();
}

Checkpoint::~Checkpoint() = default;

const CheckpointHeader& Checkpoint::header() const noexcept { return contents_->header; }

std::vector<std::string> Checkpoint::restore(const ModelState& state, ModelContext& context) const {
  contents_->check_same(state);
  const InputFile& in = *contents_->in;
  std::vector<float> piece;
  std::vector<std::string> zero;
  for (const StateTensor& tensor : state.tensors) {
    const Named* const saved = Contents::find(contents_->tensors, tensor.name);
    if (saved == nullptr) {
      zero.push_back(tensor.name);
      upload(tensor, context, piece,
             [](std::span<std::byte> bytes) { std::ranges::fill(bytes, std::byte{}); });
      continue;
    }
    std::uint64_t at = saved->begin + tensor.first * sizeof(float);
    upload(tensor, context, piece, [&](std::span<std::byte> bytes) {
      in.read_at(at, bytes);
      at += bytes.size();
    });
  }
  for (const StateCounter& counter : state.counters) {
    *counter.value = Contents::find(contents_->counters, counter.name)->number;
  }
  return zero;
}

std::optional<std::uint64_t> Checkpoint::size_of(std::string_view tensor) const {
  const Named* const saved = Contents::find(contents_->tensors, tensor);
  return saved == nullptr ? std::nullopt : std::optional{saved->number};
}

void Checkpoint::read(std::string_view tensor, std::uint64_t first,
                      std::span<float> numbers) const {
  const Named* const saved = Contents::find(contents_->tensors, tensor);
  if (saved == nullptr || first > saved->number || numbers.size() > saved->number - first) {
    contents_->refuse(
        fmt::format("it has no numbers {} to {} of '{}'", first, first + numbers.size(), tensor),
        "", "a checkpoint of the same tables");
  }
  contents_->in->read_at(saved->begin + first * sizeof(float), std::as_writable_bytes(numbers));
}

std::string state_digest(WholeState& state) {
  Hash hash;
  const std::vector<WholeState::Tensor> tensors = state.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    // Adds lengths, too, so that no two states have the same sequence of bytes.
    hash.add(std::uint64_t{tensors[i].name.size()});
    hash.add(bytes_of(tensors[i].name));
    hash.add(std::uint64_t{tensors[i].size});
    state.read(i, [&](std::span<const std::byte> bytes) { hash.add(bytes); });
  }
  return hash.of_128_bits();
}

std::string state_digest(const ModelState& state, ModelContext& context) {
  LocalState local{state, context};
  return state_digest(local);
}

}  // namespace millrace
