#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "capture/dirty_rows.hpp"
#include "capture/slot.hpp"
#include "capture/source_rows.hpp"
#include "millrace/device/stream.hpp"
#include "millrace/streamer/capture.hpp"

namespace millrace {

/**
 * How a step is captured. The training thread, told of an update, finds a slot and enqueues one
 * operation on the update's stream: the gather of the update's rows into the slot. The copier, an
 * actor, takes slots in that order: its stream waits for the gather's event, brings the header that
 * says how much there is, then that much, and hands it on.
 *
 * Rows that can not be told so are set in a bitmap on the device. Whether bits may be set the host
 * knows by numbers: each marking and each gather has one, and the header of each gather says how
 * many bits are left. While some may be set a step also takes rows from the bitmap; with a single
 * slot free its own rows go through the bitmap too.
 *
 * All that touches the bitmap, or slots' memory on the device, follows each other on the streams
 * that updates are enqueued on, or on one stream of the capture's own.
 */
class Capture::State {
 public:
  State(const Source& source, const Setting& setting, const CaptureOptions& options);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void updated(const RowUpdate& update);
  void will_move(StreamRef stream);
  std::uint64_t mark_all();
  std::uint64_t mark(std::span<const TableRow> rows);
  void tell_dirty(std::uint64_t step, StreamRef stream);
  bool flush(StreamRef stream, Nanoseconds patience);
  void stop();
  [[nodiscard]] bool dirty() const;
  [[nodiscard]] CaptureCounts counts() const;
  [[nodiscard]] std::vector<StreamedTable> tables() const { return rows_.schema(); }
  [[nodiscard]] EmbeddingBags& bags() const noexcept { return source_.bags; }

 private:
  using Slot = capture::Slot;
  using Telling = capture::Telling;

  /** Rows that the host has to have marked. */
  struct ToMark {
    bool all = false;
    std::vector<std::uint64_t> rows;  ///< counted through the tables
    std::uint64_t calls = 0;          ///< of `mark`, the last one
    std::uint64_t returned = 0;       ///< rows among them that were returned
    [[nodiscard]] bool empty() const { return !all && rows.empty(); }
  };

  // The training thread's: enqueue.
  void make_slots();
  [[nodiscard]] std::size_t slot_bytes() const;
  [[nodiscard]] Slot made(Slot::Stage stage) const;
  [[nodiscard]] std::optional<std::size_t> make_slot(StreamRef on);
  [[nodiscard]] StreamRef begin(StreamRef stream);
  void capture(const RowUpdate& update, StreamRef on);
  void capture_dirty(const Telling& telling, StreamRef on);
  void gather(std::size_t slot, const capture::GatheredRows& rows, Telling telling, StreamRef on);
  [[nodiscard]] bool copy_and_wait(Slot& slot, StreamRef on);
  [[nodiscard]] capture::SlotMemory gathered_into(Slot& slot, StreamRef on);
  [[nodiscard]] bool drain(Slot& slot, const capture::GatheredRows& rows);
  void give_up(Slot& slot, const capture::GatheredRows& rows, const Telling& told, StreamRef on);
  void expect(Slot& slot, const capture::GatheredRows& rows);

  // Likewise: marks.
  void mark_list(const capture::RowList& list, double rows, StreamRef on);
  void apply_marks(StreamRef on);
  void mark_returned(Slot& slot, StreamRef on);
  void mark_again(const CapturedRows& rows);
  void marked(std::uint64_t rows);
  void everything();

  // Likewise: slots, and the copier.
  [[nodiscard]] std::optional<std::size_t> acquire(StreamRef on, Nanoseconds patience);
  [[nodiscard]] std::optional<std::size_t> take_slot(StreamRef on);
  [[nodiscard]] std::size_t free_slots() const;
  [[nodiscard]] bool ended() const;
  [[nodiscard]] std::size_t captures_left() const;
  bool wait_until_told(Nanoseconds patience);
  bool wait_until(const std::function<bool()>& condition, Nanoseconds patience);
  [[nodiscard]] Telling telling(std::uint64_t step) const;
  void tell(const Telling& telling);

  // The copier's.
  void run();
  void hand_on(const Telling& telling);
  void lose(const Telling& telling);
  [[nodiscard]] bool bring(Slot& slot);
  void copy_to_host(Slot& slot, StreamRef on);
  void deliver(const Telling& telling, Slot& slot);
  [[nodiscard]] bool offer(const CapturedRows& rows);
  [[nodiscard]] CapturedRows told(const Telling& telling, std::uint64_t missing) const;

  // Anybody's.
  [[nodiscard]] capture::CaptureHeader header_of(Slot& slot) const;
  void set_stage(Slot& slot, Slot::Stage stage);
  void return_slot(Slot& slot, std::uint64_t rows);
  void learn(std::uint64_t sequence, std::uint64_t missing);
  void failed();

  const Source source_;
  const std::unordered_map<std::uint32_t, std::size_t> place_of_;  ///< of a table of the schema
  const Setting setting_;
  const CaptureOptions options_;
  ModelContext& context_;
  OrderedDevice& ordered_;
  capture::SourceRows rows_;
  capture::DirtyRows dirty_;
  std::optional<Stream> own_, copy_;
  std::vector<Slot> slots_;
  std::array<capture::Staging, 2> stagings_;  ///< of `ring_kernel`, in turn
  std::size_t staging_ = 0;                   ///< the one that was gathered into last
  bool no_more_slots_ = false;                ///< there was no memory for another
  std::vector<std::byte> copied_out_;         ///< of `mapped`: the copier's
  Event made_;                                ///< behind the making of its memory, on main
  Event last_;                                ///< behind the last operation
  std::vector<StreamId> used_on_;             ///< streams that have waited for `made_`
  std::optional<Event> unwaited_;  ///< a gather on `own_`: what moves rows next waits for it
  std::uint64_t step_ = 0;
  double modelled_missing_ = 0;  ///< where nothing is computed

  mutable std::mutex mutex_;  ///< never held across a call of the device
  std::unique_ptr<Condition> changed_;
  std::deque<Telling> queue_;
  bool busy_ = false, ending_ = false, stopped_ = false;
  CaptureCounts counts_;
  ToMark to_mark_;
  std::uint64_t calls_ = 0, calls_applied_ = 0;
  std::uint64_t sequence_ = 0, marked_at_ = 0, clean_at_ = 0;
  std::uint64_t marked_ = 0;                           ///< rows, at most, ever
  std::uint64_t returned_ = 0, returned_applied_ = 0;  ///< rows, at most: and marked again
  std::uint64_t missing_ = 0, marked_at_header_ = 0;   ///< the copier's: at the last header
  std::unique_ptr<Executor::Task> copier_;
};

}  // namespace millrace
