#include "millrace/pipeline/model/checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "model/checkpoint_file.hpp"
#include "model/hash.hpp"
#include "model/state_transfer.hpp"

namespace millrace {

using namespace model;

namespace {

using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie");

constexpr std::uint64_t kMagic = 0x454341524C4C494DULL;  // "MILLRACE"
constexpr std::uint64_t kVersion = 1;
constexpr std::uint64_t kPreamble = 40;  // four numbers, and the hash of them and the header
constexpr std::uint64_t kMostHeader = std::uint64_t{1} << 30;

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

Json to_document(const CheckpointHeader& header, const ModelState& state) {
  Json tensors = Json::array(), counters = Json::array();
  for (const StateTensor& tensor : state.tensors) {
    tensors.push_back({{"name", tensor.name}, {"size", tensor.size}});
  }
  for (const StateCounter& counter : state.counters) {
    counters.push_back({{"name", counter.name}, {"value", *counter.value}});
  }
  return {{"model", header.model},
          {"data", header.data},
          {"seed", header.seed},
          {"steps", header.steps},
          {"batch_size", header.batch_size},
          {"position", {{"epoch", header.position.epoch}, {"batch", header.position.batch}}},
          {"tensors", std::move(tensors)},
          {"counters", std::move(counters)}};
}

std::uint64_t payload_of(const ModelState& state) {
  std::uint64_t bytes = 0;
  for (const StateTensor& tensor : state.tensors) {
    bytes += tensor.size * sizeof(float) + sizeof(std::uint64_t);
  }
  return bytes;
}

struct Named {
  std::string name;
  std::uint64_t number = 0;  ///< of floats, or the counter
};

std::vector<Named> named(const Json& list, const char* number) {
  std::vector<Named> all;
  for (const Json& item : list) {
    all.push_back({item.at("name").get<std::string>(), item.at(number).get<std::uint64_t>()});
  }
  return all;
}

}  // namespace

void save_checkpoint(const std::filesystem::path& file, const CheckpointHeader& header,
                     const ModelState& state, ModelContext& context) {
  const std::string text = to_document(header, state).dump();
  const std::uint64_t payload = payload_of(state);
  UnfinishedFile out{file};
  for (const std::uint64_t number : {kMagic, kVersion, std::uint64_t{text.size()}, payload}) {
    out.write(number);
  }
  out.write(header_hash(text.size(), payload, text));
  out.write(bytes_of(text));
  std::vector<float> piece;
  for (const StateTensor& tensor : state.tensors) {
    Hash hash;
    download(tensor, context, piece, [&](std::span<const std::byte> bytes) {
      hash.add(bytes);
      out.write(bytes);
    });
    out.write(hash.of_64_bits());
  }
  out.finish();
}

void check_checkpoint_place(const std::filesystem::path& file) { const UnfinishedFile probe{file}; }

struct Checkpoint::Contents {
  std::filesystem::path file;
  CheckpointHeader header;
  std::vector<Named> tensors, counters;
  std::uint64_t payload_begin = 0;

  void read();
  void check_payload(InputFile& in) const;
  void check_same(const ModelState& state) const;
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
  InputFile in{file};
  if (in.size() < kPreamble || in.read_number() != kMagic) {
    refuse("this is not a checkpoint", "", "a file that --save has written");
  }
  const std::uint64_t version = in.read_number();
  if (version != kVersion) {
    refuse(fmt::format("the checkpoint is of version {}", version), "",
           fmt::format("version {}, which this program reads", kVersion));
  }
  const std::uint64_t header_bytes = in.read_number(), payload = in.read_number();
  const std::uint64_t hash = in.read_number();
  const std::uint64_t left = in.size() - kPreamble;
  if (header_bytes > kMostHeader || payload > ~std::uint64_t{0} - kPreamble - header_bytes) {
    refuse("the checkpoint is damaged: it states sizes that can not be", "its first 40 bytes",
           "the file as --save has written it");
  }
  check_size(left + kPreamble, kPreamble + header_bytes + payload);
  std::string text(header_bytes, '\0');
  in.read(std::as_writable_bytes(std::span<char>{text}));
  if (header_hash(header_bytes, payload, text) != hash) {
    refuse("the checkpoint is damaged: its header's checksum does not match",
           fmt::format("bytes 0 to {}", kPreamble + header_bytes),
           "the file as --save has written it");
  }
  const Json document = Json::parse(text);
  header = {.model = document.at("model"),
            .data = document.at("data"),
            .seed = document.at("seed"),
            .steps = document.at("steps"),
            .batch_size = document.at("batch_size"),
            .position = {document.at("position").at("epoch"), document.at("position").at("batch")}};
  tensors = named(document.at("tensors"), "size");
  counters = named(document.at("counters"), "value");
  payload_begin = kPreamble + header_bytes;
  check_payload(in);
}

void Checkpoint::Contents::check_payload(InputFile& in) const {
  std::vector<std::byte> piece;
  std::uint64_t at = payload_begin;
  for (const Named& tensor : tensors) {
    Hash hash;
    const std::uint64_t bytes = tensor.number * sizeof(float);
    for (std::uint64_t done = 0; done < bytes; done += piece.size()) {
      piece.resize(std::min<std::uint64_t>(kPiece, bytes - done));
      in.read(piece);
      hash.add(piece);
    }
    if (in.read_number() != hash.of_64_bits()) {
      refuse(fmt::format("the checkpoint is damaged: the checksum of '{}' does not match",
                         tensor.name),
             fmt::format("bytes {} to {}", at, at + bytes + sizeof(std::uint64_t)),
             "the file as --save has written it");
    }
    at += bytes + sizeof(std::uint64_t);
  }
}

void Checkpoint::Contents::check_same(const ModelState& state) const {
  constexpr const char* right = "a model like the one that was saved";
  const auto compare = [&](const char* kind, const std::string& here, const std::string& model) {
    if (here == model) return;
    refuse(fmt::format("the checkpoint is of another model: {} '{}' there, '{}' here", kind, here,
                       model),
           "", right);
  };
  for (std::size_t i = 0; i < std::max(tensors.size(), state.tensors.size()); ++i) {
    compare("tensor", i < tensors.size() ? tensors[i].name : "",
            i < state.tensors.size() ? state.tensors[i].name : "");
    if (tensors[i].number == state.tensors[i].size) continue;
    refuse(fmt::format("the checkpoint is of another model: '{}' has {} numbers there, {} here",
                       tensors[i].name, tensors[i].number, state.tensors[i].size),
           "", right);
  }
  for (std::size_t i = 0; i < std::max(counters.size(), state.counters.size()); ++i) {
    compare("counter", i < counters.size() ? counters[i].name : "",
            i < state.counters.size() ? state.counters[i].name : "");
  }
}

Checkpoint::Checkpoint(std::filesystem::path file) : contents_(std::make_unique<Contents>()) {
  contents_->file = std::move(file);
  contents_->read();
}

Checkpoint::~Checkpoint() = default;

const CheckpointHeader& Checkpoint::header() const noexcept { return contents_->header; }

void Checkpoint::restore(const ModelState& state, ModelContext& context) const {
  contents_->check_same(state);
  InputFile in{contents_->file};
  in.skip(contents_->payload_begin);
  std::vector<float> piece;
  for (const StateTensor& tensor : state.tensors) {
    upload(tensor, context, piece, [&](std::span<std::byte> bytes) { in.read(bytes); });
    in.skip(sizeof(std::uint64_t));
  }
  for (std::size_t i = 0; i < state.counters.size(); ++i) {
    *state.counters[i].value = contents_->counters[i].number;
  }
}

std::string state_digest(const ModelState& state, ModelContext& context) {
  Hash hash;
  std::vector<float> piece;
  for (const StateTensor& tensor : state.tensors) {
    hash.add(std::uint64_t{tensor.name.size()});
    hash.add(bytes_of(tensor.name));
    hash.add(std::uint64_t{tensor.size});
    download(tensor, context, piece, [&](std::span<const std::byte> bytes) { hash.add(bytes); });
  }
  return hash.of_128_bits();
}

}  // namespace millrace
