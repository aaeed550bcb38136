#pragma once

#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "test/streamer/capture/training_rig.hpp"

namespace millrace::test {

/// Stands between tables and their observer. Names the waits that the observer makes and their
/// place, and leaves out one of them. "update waits for main, first 2" is the second such wait in
/// the first update that the observer gets. The place of waits on the observer's own threads is
/// "beside".
class ObserverWaits final : public RowUpdateObserver {
 public:
  ObserverWaits(TrainingRig& rig, RowUpdateObserver& observer, std::string left_out);
  ~ObserverWaits() override;

  void rows_updated(const RowUpdate& update) override;
  void rows_will_move(StreamRef stream) override;

  /// Attributes the waits in `function` to the observer, at `place`.
  template <typename Function>
  void during(const std::string& place, bool numbered, Function&& function) {
    place_ = place;
    numbered_ = numbered;
    of_call_.clear();
    try {
      function();
    } catch (...) {
      place_.clear();
      throw;
    }
    place_.clear();
  }
  /// The names of all waits of the observer.
  [[nodiscard]] const std::set<std::string>& made() const { return made_; }

 private:
  [[nodiscard]] bool leaves_out(const std::string& edge);

  TrainingRig& rig_;
  RowUpdateObserver& observer_;
  const std::string left_out_;
  const std::thread::id thread_ = std::this_thread::get_id();
  bool first_ = true, numbered_ = false;
  std::string place_;
  std::map<std::string, unsigned> of_call_;
  std::set<std::string> made_;
};

}  // namespace millrace::test
