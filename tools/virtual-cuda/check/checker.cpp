#include "check/checker.hpp"

#include <algorithm>

#include "engine/kernels.hpp"
#include "engine/runtime.hpp"

namespace millrace::virtual_cuda {

Checker* the_checker = nullptr;

namespace {

// The object that orders a host function before the calls that are made after its end. The
// program's objects have their addresses as numbers, which are not 0.
constexpr std::uint64_t kCalls = 0;

std::string stream_name(const CUstream_st& stream) {
  std::string name = std::to_string(stream.id);
  if (stream.role == CUstream_st::Role::legacy) name = "legacy";
  if (stream.role == CUstream_st::Role::per_thread) name += " (per-thread)";
  if (runtime().gpus.size() > 1) name += " of GPU " + std::to_string(stream.device);
  return name;
}

}  // namespace

Checker::Checker(Check mode) : mode_{mode} {
  if (mode_ == Check::calls) host_ = races_.add_thread("host");
}

// In the mode `calls` all threads are one actor, so that calls are ordered as they were made.
Checker::Actor Checker::host() {
  Thread& thread = *this_thread;
  if (thread.callback != Operation::kNoCallback) return thread.callback;
  if (mode_ == Check::calls) return host_;
  const auto [entry, added] = threads_.try_emplace(thread.id, 0);
  if (added) entry->second = races_.add_thread(std::to_string(thread.id));
  return entry->second;
}

Checker::Actor Checker::actor(const CUstream_st& stream) {
  const auto [entry, added] = streams_.try_emplace({stream.device, stream.id}, 0);
  if (added)
    entry->second = races_.add_stream(stream_name(stream), stream.blocking(),
                                      stream.role == CUstream_st::Role::legacy, stream.device);
  return entry->second;
}

void Checker::stream_ended(const CUstream_st& stream) {
  const auto entry = streams_.find({stream.device, stream.id});
  if (entry == streams_.end()) return;
  races_.remove_stream(entry->second);
  streams_.erase(entry);
}

void Checker::thread_ended(const Thread& thread) {
  const auto entry = threads_.find(thread.id);
  if (entry == threads_.end()) return;
  races_.remove_thread(entry->second);
  threads_.erase(entry);
}

std::string Checker::here(std::string_view unnamed, std::string_view part) {
  const Sites::Call call = sites_.current();
  std::string text = call.function.empty() ? std::string{unnamed} : call.function;
  if (!part.empty()) text += " of " + std::string{part};
  return text + " at " + call.place;
}

const Checker::KernelFacts& Checker::facts(const Kernel& kernel) {
  const auto [entry, added] = kernels_.try_emplace(&kernel);
  if (added) {
    const std::string readable = readable_name(kernel);
    entry->second = {std::string{function_name(readable)}, pointer_parameters(readable)};
  }
  return entry->second;
}

std::string Checker::name_of(const Work& work) {
  const bool in_graph = launch_.stream != nullptr;
  if (const auto* const kernel = std::get_if<KernelWork>(&work))
    return here("launch", "kernel " + facts(*kernel->kernel).name);
  if (std::holds_alternative<HostWork>(work)) return here("launch", "a host function");
  if (std::holds_alternative<CopyWork>(work)) return here("copy", in_graph ? "a copy" : "");
  if (std::holds_alternative<FillWork>(work)) return here("fill", in_graph ? "a fill" : "");
  return here("call", in_graph ? "a node" : "");
}

void Checker::perform(Actor on, Operation& operation) {
  const Actor by = host();
  if (const auto* const record = std::get_if<RecordWork>(&operation.work)) {
    if (last_record(record->event) != nullptr) races_.record(key(*record->event.event), on, by);
    return;
  }
  if (std::holds_alternative<HostWork>(operation.work)) {
    operation.callback = races_.begin_callback(on, by, name_of(operation.work));
    return;
  }
  if (const auto* const alloc = std::get_if<AllocWork>(&operation.work)) {
    const std::string call = here("allocation", "an allocation");
    end_stale(alloc->address, alloc->bytes, call);
    races_.pool_allocated(alloc->address, alloc->bytes, on, by, call);
    live_[reinterpret_cast<Address>(alloc->address)] = {alloc->bytes, call, false};
    return;
  }
  if (const auto* const free = std::get_if<FreeWork>(&operation.work)) {
    const auto live = live_.find(reinterpret_cast<Address>(free->address));
    if (live == live_.end()) return;
    live_.erase(live);
    races_.pool_freed(free->address, on, by, here("free", "a free"));
    collect({free->address, 1, true});
    return;
  }
  const std::string name = name_of(operation.work);
  const RaceChecker::OpIndex index = races_.enqueue(on, by, name);
  if (const auto* const copy = std::get_if<CopyWork>(&operation.work)) {
    touch(index, accesses_of(*copy), name);
  } else if (const auto* const fill = std::get_if<FillWork>(&operation.work)) {
    touch(index, accesses_of(*fill), name);
  } else if (const auto* const kernel = std::get_if<KernelWork>(&operation.work)) {
    if (kernel->accesses == nullptr) {
      ++unknown_launches_;
    } else {
      for (const Access& access : *kernel->accesses) touch(index, access);
    }
  }
}

void Checker::enqueued(const CUstream_st& stream, Operation& operation) {
  perform(actor(stream), operation);
}

std::uint64_t Checker::key(const CUevent_st& event) {
  const auto [entry, added] = events_.try_emplace(&event, 0);
  if (added) entry->second = next_key();
  return entry->second;
}

void Checker::forget(const CUevent_st& event) {
  const auto entry = events_.find(&event);
  if (entry == events_.end()) return;
  races_.forget_event(entry->second);
  events_.erase(entry);
}

void Checker::waits(const CUstream_st& stream, const CUevent_st& event) {
  races_.wait(actor(stream), key(event), host());
}

void Checker::order(Actor before, Actor after) {
  const std::uint64_t event = next_key();
  races_.record(event, before, host());
  races_.wait(after, event, host());
  races_.forget_event(event);
}

void Checker::recorded_all(const Gpu& gpu, const CUevent_st& event) {
  const Actor all = races_.add_stream("context", false, false, gpu.ordinal);
  for (const auto& [name, stream] : streams_)
    if (name.first == gpu.ordinal) order(stream, all);
  races_.record(key(event), all, host());
  races_.remove_stream(all);
}

void Checker::synchronized(const CUstream_st& stream) {
  races_.stream_synchronized(actor(stream), host());
}
void Checker::synchronized(const CUevent_st& event) {
  races_.event_synchronized(key(event), host());
}
void Checker::synchronized(const Gpu& gpu) { races_.device_synchronized(host(), gpu.ordinal); }
void Checker::synchronized_all() {
  for (const auto& gpu : runtime().gpus) synchronized(*gpu);
}

void Checker::begin_launch(const CUstream_st& stream, const void* executable) {
  const Actor on = actor(stream);
  launch_ = {};
  launch_.stream = &stream;
  launch_.start = next_key();
  if (const auto last = launches_.find(executable);
      last != launches_.end() && holds(Rule::graph_launches))
    races_.wait(on, last->second, host());
  races_.record(launch_.start, on, host());
  launch_.last[on] = nullptr;
}

// A node continues the actor of a predecessor that has no later node yet.
void Checker::node(Operation& operation, const std::vector<OperationRef>& after) {
  std::vector<const Operation*> before;
  for (const OperationRef& earlier : after)
    if (launch_.actors.contains(earlier.get())) before.push_back(earlier.get());
  const Actor stream = actor(*launch_.stream);
  std::optional<Actor> on;
  if (before.empty() && launch_.last.at(stream) == nullptr) on = stream;
  for (const Operation* const earlier : before) {
    const Actor candidate = launch_.actors.at(earlier);
    if (!on && launch_.last.at(candidate) == earlier) on = candidate;
  }
  if (!on) {
    on = races_.add_stream(stream_name(*launch_.stream) + "'s graph", false, false,
                           launch_.stream->device);
    launch_.made.push_back(*on);
  }
  if (before.empty()) races_.wait(*on, launch_.start, host());
  if (holds(Rule::graph_nodes))
    for (const Operation* const earlier : before)
      races_.wait(*on, launch_.ends.at(earlier), host());
  perform(*on, operation);
  launch_.actors[&operation] = *on;
  launch_.last[*on] = &operation;
  races_.record(launch_.ends[&operation] = next_key(), *on, host());
}

void Checker::node_waits(const Operation& operation, const CUevent_st& event) {
  if (!holds(Rule::graph_waits)) return;
  const Actor on = launch_.actors.at(&operation);
  races_.wait(on, key(event), host());
  races_.record(launch_.ends.at(&operation), on, host());
}

void Checker::end_launch(const void* executable) {
  const Actor on = actor(*launch_.stream);
  for (const Actor made : launch_.made) {
    if (holds(Rule::graph_end)) order(made, on);
    races_.remove_stream(made);
  }
  races_.forget_event(launch_.start);
  for (const auto& [operation, event] : launch_.ends) races_.forget_event(event);
  const auto [last, added] = launches_.try_emplace(executable, 0);
  if (added) last->second = next_key();
  races_.record(last->second, on, host());
  launch_ = {};
}

void Checker::forget_launches(const void* executable) {
  const auto last = launches_.find(executable);
  if (last == launches_.end()) return;
  races_.forget_event(last->second);
  launches_.erase(last);
}

void Checker::callback_ended(const Operation& operation) {
  if (operation.callback == Operation::kNoCallback) return;
  if (mode_ == Check::calls && holds(Rule::host_functions)) {
    races_.release(operation.callback, kCalls);
    races_.acquire(host_, kCalls);
  }
  races_.end_callback(operation.callback);
}

void Checker::released(std::uint64_t object) { races_.release(host(), object); }
void Checker::acquired(std::uint64_t object) { races_.acquire(host(), object); }

void Checker::write_summary(std::FILE* file) const {
  log_.write_summary(file);
  if (unknown_launches_ != 0)
    std::fprintf(file, "  %llu launches of kernels whose accesses are not known\n",
                 static_cast<unsigned long long>(unknown_launches_));
}

namespace checking {

void synchronized(const CUstream_st& stream) {
  if (the_checker != nullptr) the_checker->synchronized(stream);
}
void synchronized(const CUevent_st& event) {
  if (the_checker != nullptr) the_checker->synchronized(event);
}
void waits(const CUstream_st& stream, const CUevent_st& event) {
  if (the_checker != nullptr) the_checker->waits(stream, event);
}

}  // namespace checking
}  // namespace millrace::virtual_cuda
