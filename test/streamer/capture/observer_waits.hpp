#pragma once

#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "test/streamer/capture/training_rig.hpp"

namespace millrace::test {

/// Between tables and who observes them: says which waits of a program are the observer's and where
/// it makes them, and leaves one of them out. "update waits for main, first 2" is the second such
/// wait of the first update that the observer is told of; those of threads of its own are "beside".
class ObserverWaits final : public RowUpdateObserver {
 public:
  ObserverWaits(TrainingRig& rig, RowUpdateObserver& observer, std::string left_out);
  ~ObserverWaits() override;

  void rows_updated(const RowUpdate& update) override;
  void rows_will_move(StreamRef stream) override;

  /// What is called is the observer.
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
  /// The waits that there were.
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
