#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "millrace/streamer/lag.hpp"
#include "millrace/streamer/shipper.hpp"
#include "ship/backoff.hpp"
#include "ship/ship_queue.hpp"

namespace millrace {

/**
 * @brief What a Shipper does. worker.cpp has what others call, delivery.cpp what the actor does.
 */
class Shipper::Worker {
 public:
  Worker(std::shared_ptr<Sink> sink, Executor& executor, Recapture& recapture,
         const StreamBeginning& beginning, const ShippingOptions& options);

  void offer(Shipment shipment, Executor& of_caller);
  bool drain(Nanoseconds at_most, bool look_for_absent);
  void close(Nanoseconds at_most);
  void stop(Nanoseconds at_most);
  [[nodiscard]] ShippingHealth health() const;
  [[nodiscard]] ShippingReport report() const;

 private:
  /** Rows that are to be told behind a ticket. */
  struct Again {
    std::uint64_t ticket = 0, rows = 0;
  };
  static constexpr Nanoseconds::rep kNever = -1;

  // Of those who call.
  [[nodiscard]] bool drained() const;
  void enqueue(Shipment shipment);
  void recapture(const StepBatch& rows);
  void forget_all(const StepCommit& newest, std::uint64_t recaptures);
  [[nodiscard]] std::uint64_t missing_now() const;
  [[nodiscard]] std::uint64_t rows_behind(std::uint64_t ticket) const;
  void note_oldest();

  // Of the actor.
  void run();
  void end(const std::string& why, bool overtaken);
  void begin();
  void tell_anew();
  void snapshot();
  [[nodiscard]] std::optional<ship::MergedSteps> take();
  void serve_requests(std::unique_lock<std::mutex>& lock);
  void deliver(ship::MergedSteps next);
  void delivered(const ship::MergedSteps& steps, std::uint64_t missing);
  void flush();
  [[nodiscard]] bool keeps_all();
  [[nodiscard]] bool has_newest_commit();
  void find_absent();
  [[nodiscard]] bool asked_for_snapshot();
  [[nodiscard]] std::uint64_t outstanding(std::uint64_t ticket);
  template <typename Call>
  auto insist(Call&& call);
  void failed(const char* what);
  void succeeded();
  void pause(Nanoseconds length);
  [[nodiscard]] bool out_of_time() const;

  const std::shared_ptr<Sink> sink_;
  Executor& executor_;
  Recapture& recapture_;
  const StreamBeginning beginning_;
  const ShippingOptions options_;

  // Of the actor.
  ship::Backoff backoff_;
  Version after_;
  std::uint64_t answered_ = 0;  ///< requests for a snapshot
  std::uint64_t failures_ = 0;
  bool unflushed_ = false;
  Nanoseconds flushed_{0};

  mutable std::mutex mutex_;
  const std::unique_ptr<Condition> changed_;
  ship::ShipQueue queue_;
  std::deque<Again> again_;
  std::uint64_t missing_then_ = 0;      ///< of the last step that was delivered, as captured
  std::uint64_t delivered_ticket_ = 0;  ///< that it was captured behind
  ship::Lags lags_;
  ShippingReport report_;
  std::uint64_t under_way_steps_ = 0, under_way_rows_ = 0;
  Nanoseconds under_way_since_{0};  ///< when its first step was captured
  bool busy_ = true;                ///< until it has looked at the sink
  bool flush_asked_ = false, look_asked_ = false;

  // Read without the mutex, which is held while rows are merged.
  std::atomic<bool> closing_ = false, ended_ = false;
  std::atomic<Nanoseconds::rep> until_ = 0;
  std::atomic<Nanoseconds::rep> failing_since_ = kNever, oldest_ = kNever;
  mutable std::mutex words_;  ///< of these two
  std::string error_, given_up_;

  std::unique_ptr<Executor::Task> task_;
};

}  // namespace millrace
