#include "millrace/pipeline/data/jagged_operations.hpp"

#include <fmt/format.h>

#include <numeric>
#include <stdexcept>
#include <utility>

#include "data/cuda/kernels.hpp"
#include "data/segment_copy.hpp"

namespace millrace {
namespace {

using Tensors = KeyedJaggedTensor::Tensors;

template <typename Index>
void sum_on_host(const KernelContext& context) {
  const auto lengths = context.as<const Index>(1);
  const auto offsets = context.as<Index>(0);
  offsets[0] = 0;
  std::inclusive_scan(lengths.begin(), lengths.end(), offsets.begin() + 1);
}

void enqueue_prefix_sum(const JaggedScope& scope, const BatchTensor& lengths,
                        const BatchTensor& offsets, IndexType type) {
  const std::size_t count = lengths.bytes() / bytes_of(type);
  const BatchTensor scratch{scope.memory, cuda::prefix_sum_scratch(count), scope.stream, scope.tag};

  Operation operation;
  operation.name = "offsets from lengths";
  operation.views = {{offsets.data(), offsets.bytes(), Access::write},
                     {lengths.data(), lengths.bytes(), Access::read},
                     {scratch.data(), scratch.bytes(), Access::read_write}};
  operation.cost = {.flops = static_cast<double>(count),
                    .bytes = static_cast<double>(lengths.bytes() + offsets.bytes())};
  operation.cuda = cuda::prefix_sum({lengths.data(), offsets.data(), count, type, scratch.data()});
  if (!scope.cost_only) {
    operation.host =
        type == IndexType::int32 ? sum_on_host<std::int32_t> : sum_on_host<std::int64_t>;
  }
  scope.memory.device().device().launch(std::move(operation), scope.stream.handle());
}

BatchTensor make_offsets(const JaggedScope& scope, const JaggedLayout& layout,
                         const BatchTensor& lengths) {
  BatchTensor offsets{scope.memory, layout.offset_bytes(), scope.stream, scope.tag};
  if (!offsets.empty()) enqueue_prefix_sum(scope, lengths, offsets, layout.length_type);
  return offsets;
}

Tensors make_room(const JaggedScope& scope, const JaggedLayout& layout) {
  const auto room = [&](std::size_t bytes) {
    return BatchTensor{scope.memory, bytes, scope.stream, scope.tag};
  };
  return {.values = room(layout.value_bytes()),
          .lengths = room(layout.length_bytes()),
          .offsets = {},
          .weights = room(layout.weight_bytes())};
}

/*
 * Bags are key-major: the lengths of one key are adjacent, and so are its values and weights. The
 * sizes of keys are in the layout, on the host. Therefore `permute` and `concat` copy a few runs of
 * bytes, and `split` makes slices; none of them waits for the device or reads an id. Ids are never
 * reordered within a key, so a bag's rows are added in the same order as before, and results are
 * equal bit for bit. Offsets count from the tensor's first value, so they are computed again from
 * the lengths.
 */

/** Gathers runs of keys of several tensors into a new one. */
class KeyGatherer {
 public:
  KeyGatherer(std::string name, const JaggedScope& scope, const JaggedLayout& layout)
      : scope_(scope), layout_(layout), room_(make_room(scope, layout)) {
    copy_.name = std::move(name);
    copy_.targets = {room_.lengths, room_.values};
    if (layout.weighted) copy_.targets.push_back(room_.weights);
  }

  void append(const KeyedJaggedTensor& source, std::size_t first_key, std::size_t keys) {
    const std::size_t first_source = add_source(source);
    const std::size_t bags = source.batch_size();
    const std::size_t begin = source.value_start(first_key);
    const std::size_t values = source.value_start(first_key + keys) - begin;
    append_run(first_source, 0,
               {first_key * bags, bags_, keys * bags, bytes_of(layout_.length_type)});
    append_run(first_source, 1, {begin, values_, values, bytes_of(layout_.value_type)});
    if (layout_.weighted) append_run(first_source, 2, {begin, values_, values, sizeof(float)});
    bags_ += keys * bags;
    values_ += values;
  }

  [[nodiscard]] KeyedJaggedTensor finish() && {
    std::move(copy_).launch(scope_);
    room_.offsets = make_offsets(scope_, layout_, room_.lengths);
    return {std::move(layout_), std::move(room_)};
  }

 private:
  struct Run {
    std::size_t from, to, count, element_bytes;
  };

  std::size_t add_source(const KeyedJaggedTensor& source) {
    // Keys of one tensor share its entries in the list of sources.
    if (last_ == &source) return copy_.sources.size() - copy_.targets.size();
    last_ = &source;
    source.record_use(scope_.stream);
    const std::size_t first = copy_.sources.size();
    copy_.sources.push_back(source.lengths());
    copy_.sources.push_back(source.values());
    if (layout_.weighted) copy_.sources.push_back(source.weights());
    return first;
  }

  void append_run(std::size_t first_source, std::size_t tensor, const Run& run) {
    copy_.segments.push_back({.source = first_source + tensor,
                              .from = run.from * run.element_bytes,
                              .target = tensor,
                              .to = run.to * run.element_bytes,
                              .bytes = run.count * run.element_bytes});
  }

  const JaggedScope& scope_;
  JaggedLayout layout_;
  Tensors room_;
  SegmentCopy copy_;
  const KeyedJaggedTensor* last_ = nullptr;
  std::size_t bags_ = 0, values_ = 0;
};

/** Returns `layout` without its keys and counts. */
JaggedLayout without_keys(const JaggedLayout& layout) {
  return {.batch_size = layout.batch_size,
          .weighted = layout.weighted,
          .value_type = layout.value_type,
          .length_type = layout.length_type};
}

void check_order(const KeyedJaggedTensor& input, std::span<const std::size_t> order) {
  std::vector<bool> taken(input.key_count());
  for (const std::size_t position : order) {
    if (position >= input.key_count()) {
      throw std::invalid_argument{
          fmt::format("permute: key {} does not exist: there are {} keys, counted from 0", position,
                      input.key_count())};
    }
    if (taken[position]) {
      throw std::invalid_argument{
          fmt::format("permute: the key '{}' ({}) occurs twice", input.key(position), position)};
    }
    taken[position] = true;
  }
}

[[noreturn]] void refuse_part(std::size_t part, const std::string& why) {
  throw std::invalid_argument{fmt::format("concat: part {} {}", part, why)};
}

void check_alike(const JaggedLayout& first, const JaggedLayout& other, std::size_t part) {
  if (other.batch_size != first.batch_size) {
    refuse_part(part, fmt::format("is a batch of {} examples, those before it of {}",
                                  other.batch_size, first.batch_size));
  }
  if (other.weighted != first.weighted) {
    refuse_part(part, other.weighted ? "has weights, those before it have none"
                                     : "has no weights, those before it have some");
  }
  if (other.value_type != first.value_type) {
    refuse_part(part, fmt::format("has {} values, those before it {}", to_string(other.value_type),
                                  to_string(first.value_type)));
  }
  if (other.length_type != first.length_type) {
    refuse_part(part, fmt::format("has {} lengths, those before it {}",
                                  to_string(other.length_type), to_string(first.length_type)));
  }
}

KeyedJaggedTensor part_of(const JaggedScope& scope, const KeyedJaggedTensor& input,
                          std::size_t first, std::size_t keys) {
  JaggedLayout layout = without_keys(input.layout());
  const std::vector<std::string>& names = *input.layout().keys;
  const std::vector<std::size_t>& counts = input.layout().counts;
  const auto from = static_cast<std::ptrdiff_t>(first),
             to = static_cast<std::ptrdiff_t>(first + keys);
  layout.keys = make_keys({names.begin() + from, names.begin() + to});
  layout.counts.assign(counts.begin() + from, counts.begin() + to);

  const std::size_t begin = input.value_start(first);
  Tensors tensors;
  tensors.lengths = input.lengths().slice(first * input.batch_size() * bytes_of(layout.length_type),
                                          layout.length_bytes());
  tensors.values = input.values().slice(begin * bytes_of(layout.value_type), layout.value_bytes());
  if (layout.weighted) {
    tensors.weights = input.weights().slice(begin * sizeof(float), layout.weight_bytes());
  }
  return from_lengths(scope, layout, std::move(tensors));
}

}  // namespace

KeyedJaggedTensor empty_like(const JaggedScope& scope, const JaggedLayout& layout) {
  layout.check();
  Tensors room = make_room(scope, layout);
  room.offsets = {scope.memory, layout.offset_bytes(), scope.stream, scope.tag};
  return {layout, std::move(room)};
}

void copy_into(const JaggedScope& scope, const KeyedJaggedTensor& from, const KeyedJaggedTensor& to,
               CopyKind kind) {
  if (!(from.layout() == to.layout())) {
    throw std::invalid_argument{
        fmt::format("copy_into: {} keys, {} examples, {} {} values do not go into {} keys, {} "
                    "examples, {} {} values; keys, counts and types must agree",
                    from.key_count(), from.batch_size(), from.value_count(),
                    to_string(from.layout().value_type), to.key_count(), to.batch_size(),
                    to.value_count(), to_string(to.layout().value_type))};
  }
  from.record_use(scope.stream);
  to.record_use(scope.stream);
  const auto copy = [&](const BatchTensor& source, const BatchTensor& target) {
    if (source.empty()) return;
    scope.memory.device().device().copy(target.data(), source.data(), source.bytes(), kind,
                                        scope.stream.handle());
  };
  copy(from.lengths(), to.lengths());
  copy(from.offsets(), to.offsets());
  copy(from.values(), to.values());
  copy(from.weights(), to.weights());
}

KeyedJaggedTensor to_device(const JaggedScope& scope, const KeyedJaggedTensor& pinned) {
  KeyedJaggedTensor result = empty_like(scope, pinned.layout());
  copy_into(scope, pinned, result, CopyKind::host_to_device);
  return result;
}

KeyedJaggedTensor from_lengths(const JaggedScope& scope, const JaggedLayout& layout,
                               Tensors tensors) {
  tensors.offsets = {scope.memory, layout.offset_bytes(), scope.stream, scope.tag};
  KeyedJaggedTensor result{layout, std::move(tensors)};
  result.record_use(scope.stream);
  if (!result.offsets().empty()) {
    enqueue_prefix_sum(scope, result.lengths(), result.offsets(), layout.length_type);
  }
  return result;
}

KeyedJaggedTensor permute(const JaggedScope& scope, const KeyedJaggedTensor& input,
                          std::span<const std::size_t> order) {
  check_order(input, order);
  JaggedLayout layout = without_keys(input.layout());
  std::vector<std::string> names;
  for (const std::size_t position : order) {
    names.push_back(input.key(position));
    layout.counts.push_back(input.value_count(position));
  }
  layout.keys = make_keys(std::move(names));

  KeyGatherer gatherer{"permute", scope, layout};
  for (const std::size_t position : order) gatherer.append(input, position, 1);
  return std::move(gatherer).finish();
}

std::vector<KeyedJaggedTensor> split(const JaggedScope& scope, const KeyedJaggedTensor& input,
                                     std::span<const std::size_t> keys_of_parts) {
  const std::size_t sum =
      std::accumulate(keys_of_parts.begin(), keys_of_parts.end(), std::size_t{0});
  if (sum != input.key_count()) {
    throw std::invalid_argument{fmt::format(
        "split: the parts have {} keys in all, the tensor has {}", sum, input.key_count())};
  }
  std::vector<KeyedJaggedTensor> parts;
  std::size_t first = 0;
  for (const std::size_t keys : keys_of_parts) {
    parts.push_back(keys == 0 ? KeyedJaggedTensor{} : part_of(scope, input, first, keys));
    first += keys;
  }
  return parts;
}

KeyedJaggedTensor concat(const JaggedScope& scope, std::span<const KeyedJaggedTensor> parts) {
  const KeyedJaggedTensor* like = nullptr;
  JaggedLayout layout;
  std::vector<std::string> names;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const JaggedLayout& other = parts[part].layout();
    if (parts[part].empty()) continue;
    if (like == nullptr) {
      like = &parts[part];
      layout = without_keys(other);
    }
    check_alike(layout, other, part);
    names.insert(names.end(), other.keys->begin(), other.keys->end());
    layout.counts.insert(layout.counts.end(), other.counts.begin(), other.counts.end());
  }
  if (like == nullptr) return {};
  layout.keys = make_keys(std::move(names));
  layout.check();

  KeyGatherer gatherer{"concat", scope, layout};
  for (const KeyedJaggedTensor& part : parts) {
    if (!part.empty()) gatherer.append(part, 0, part.key_count());
  }
  return std::move(gatherer).finish();
}

}  // namespace millrace
