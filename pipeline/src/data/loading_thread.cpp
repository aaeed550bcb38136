#include "millrace/pipeline/data/loading_thread.hpp"

#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace millrace {

class LoadingThread::Worker {
 public:
  Worker(Executor& executor, EpochSource& source, const LoadingOptions& options)
      : executor_(executor),
        source_(source),
        options_(options),
        changed_(executor.make_condition()),
        position_(source.position()),
        task_(executor.spawn("loader", [this] { run(); })) {}

  ~Worker() {
    {
      const std::lock_guard lock{mutex_};
      ending_ = true;
    }
    changed_->notify_all();
    try {
      task_->join();
    } catch (...) {  // the virtual machine is being destroyed
    }
  }

  // Updates the position to that of the returned batch, not that of the source. The loader is
  // ahead, and a checkpoint must not skip the batches that it has loaded.
  std::optional<ModelInput> take() {
    Loaded loaded = next_loaded();
    changed_->notify_all();
    position_ = loaded.next;
    if (loaded.error) std::rethrow_exception(loaded.error);
    return std::move(loaded.batch);
  }

  void seek(BatchPosition position) {
    std::deque<Loaded> dropped = rest();  // freed when no lock is held
    dropped.clear();
    source_.seek(position);
    position_ = position;
    {
      const std::lock_guard lock{mutex_};
      state_ = State::loading;
      executor_.released(this);
    }
    changed_->notify_all();
  }

  [[nodiscard]] const EpochSource& source() const noexcept { return source_; }
  [[nodiscard]] BatchPosition position() const noexcept { return position_; }

 private:
  struct Loaded {
    std::optional<ModelInput> batch;  ///< no batch and no error: the end of the epoch
    std::exception_ptr error;
    BatchPosition next;  ///< the source's position after this batch
  };
  enum class State { loading, failed, ended, resting };

  void run() {
    std::unique_lock lock{mutex_};
    while (true) {
      while (!ending_ && (state_ != State::loading || ready_.size() >= options_.depth)) {
        changed_->wait(lock);
      }
      if (ending_) return;
      // Without the lock: a source may take long, and takers of loaded batches must not wait for
      // it.
      busy_ = true;
      // For a race checker: calls of the source by other threads happen before this one.
      executor_.acquired(this);
      lock.unlock();
      Loaded loaded = load();
      lock.lock();
      busy_ = false;
      if (loaded.error) {
        state_ = State::failed;
      } else if (!loaded.batch && state_ == State::loading) {
        state_ = State::ended;
      }
      ready_.push_back(std::move(loaded));
      executor_.released(this);
      changed_->notify_all();
    }
  }

  Loaded load() {
    Loaded loaded;
    try {
      loaded.batch = load_with_retries();
      if (loaded.batch && options_.check_ids) check_ids(loaded.batch->contents(), source_.schema());
    } catch (...) {
      loaded.batch.reset();
      loaded.error = std::current_exception();
    }
    loaded.next = source_.position();
    return loaded;
  }

  std::optional<ModelInput> load_with_retries() {
    for (unsigned attempt = 1;; ++attempt) {
      try {
        return source_.next();
      } catch (const RetriableError&) {
        if (attempt == options_.attempts) throw;
      }
      executor_.spend(options_.pause);
    }
  }

  Loaded next_loaded() {
    std::unique_lock lock{mutex_};
    while (ready_.empty()) {
      if (state_ == State::ended) return {.next = position_};
      if (state_ == State::failed) {  // the caller has got the error, and asks again
        state_ = State::loading;
        changed_->notify_all();
      }
      changed_->wait(lock);
    }
    Loaded loaded = std::move(ready_.front());
    ready_.pop_front();
    executor_.acquired(this);
    return loaded;
  }

  std::deque<Loaded> rest() {
    std::unique_lock lock{mutex_};
    state_ = State::resting;
    // The loader may be in a call of the source, which must not be moved meanwhile.
    while (busy_) changed_->wait(lock);
    executor_.acquired(this);
    return std::exchange(ready_, {});
  }

  Executor& executor_;
  EpochSource& source_;
  const LoadingOptions options_;
  std::mutex mutex_;
  std::unique_ptr<Condition> changed_;
  std::deque<Loaded> ready_;
  State state_ = State::loading;
  bool busy_ = false;  ///< whether the loader is in a call of the source
  bool ending_ = false;
  BatchPosition position_;
  // Last member: the actor starts when it is made, and uses all other members.
  std::unique_ptr<Executor::Task> task_;
};

LoadingThread::LoadingThread(Executor& executor, EpochSource& source,
                             const LoadingOptions& options) {
  if (options.depth == 0) throw std::invalid_argument{"a loader holds at least one batch"};
  if (options.attempts == 0) throw std::invalid_argument{"a loader tries at least once"};
  worker_ = std::make_unique<Worker>(executor, source, options);
}

LoadingThread::~LoadingThread() = default;

const InputSchema& LoadingThread::schema() const { return worker_->source().schema(); }

std::optional<ModelInput> LoadingThread::do_next() { return worker_->take(); }

BatchPosition LoadingThread::position() const { return worker_->position(); }

void LoadingThread::do_seek(BatchPosition position) { worker_->seek(position); }

}  // namespace millrace
